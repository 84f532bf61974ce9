-- Returns the entries of an exactly_once router that the dest does not show. Each entry is one record. The function leaves out
-- records that this router brought before and the dest still shows, by the stamps of the dest's spans. It uses the index of
-- stamps. A span has at most 100,000 seqs. Losses stay.
CREATE OR REPLACE FUNCTION router_unsent(
    entries topics_span[], router routers_router, p_floor_seq bigint, p_after bigint, p_upto bigint
) RETURNS SETOF topics_span
LANGUAGE sql STABLE AS $$
    WITH sent AS (
        SELECT range_agg(int8range(stamp_first_seq + greatest(p_floor_seq + 1 - first_seq, 0),
                                   stamp_first_seq + last_seq - first_seq, '[]')) AS seqs
          FROM topics_span
         WHERE topic_id = router.dest_id AND stamp_router = router.name AND stamp_source_id = router.source_id
           AND stamp_first_seq + last_seq - first_seq > p_after AND stamp_first_seq + last_seq - first_seq < p_upto + 100000
           AND stamp_first_seq <= p_upto AND shown AND last_seq > p_floor_seq)
    SELECT entry.* FROM unnest(entries) entry CROSS JOIN sent
     WHERE (home_id IS NOT NULL AND sent.seqs @> entry.first_seq) IS NOT TRUE
     ORDER BY first_seq
$$;
