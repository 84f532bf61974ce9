-- Returns the records with these seqs that a topic shows, own and forwarded. The caller leaves out seqs at or below the floor, and
-- expired ones.
--
-- Each seq takes a probe of the primary key. A seq without a record of its own takes a probe of the spans. One plan serves all
-- values. OFFSET 0 keeps the joins loops over these indexes, whatever the planner estimates.
CREATE OR REPLACE FUNCTION topic_shown(p_topic_id bigint, p_seqs bigint[])
RETURNS TABLE (seq bigint, ts bigint, node text, tag text, meta text, data json, size integer)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT own.seq, own.ts, own.node, own.tag, own.meta::text, own.data, own.size
      FROM unnest(p_seqs) AS asked (seq)
     CROSS JOIN LATERAL (SELECT * FROM topics_record WHERE topic_id = p_topic_id AND seq = asked.seq OFFSET 0) own
     WHERE NOT own.deleted;
    -- Spans below the seqs may be hidden, in any number: their records were deleted.
    IF EXISTS (SELECT FROM topics_span
                WHERE topic_id = p_topic_id AND last_seq >= (SELECT min(seq) FROM unnest(p_seqs) seq) AND shown) THEN
        RETURN QUERY
        SELECT forwarded.seq, forwarded.ts, forwarded.node, forwarded.tag, forwarded.meta, forwarded.data, forwarded.size
          FROM unnest(p_seqs) AS asked (seq)
         CROSS JOIN LATERAL (SELECT * FROM topic_forwarded(p_topic_id, asked.seq, asked.seq) OFFSET 0) forwarded;
    END IF;
END
$$;
