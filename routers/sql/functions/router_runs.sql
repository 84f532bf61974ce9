-- Returns the records that a source shows in (p_after, p_upto], as runs of home records in order, filtered by tag if p_op is
-- given. Own records without a hole between them are one run. A span, or each matching part of it, is one run. A run without a
-- home is a loss that the source got itself. From p_told on, losses below the source's floor count, too. Records that came
-- through p_max_hops routers are left out (NULL: none).
--
-- Records are a range of the primary key. `IS NOT DISTINCT FROM` leaves the planner no proof that they have a tag, so it cannot take
-- the index on tags, which it would read whole for each span.
CREATE OR REPLACE FUNCTION router_runs(
    p_source_id bigint, p_holes_seq bigint, p_told bigint, p_after bigint, p_upto bigint, p_op text, p_tag text, p_max_hops integer
) RETURNS TABLE (
    first_seq bigint, last_seq bigint, home_id bigint, home_first_seq bigint, keep_node boolean, keep_tag boolean, path text[],
    stamp_router text, stamp_source text, stamp_source_id bigint, stamp_first_seq bigint
)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF p_told < p_holes_seq THEN
        RETURN QUERY
        SELECT greatest(first_seq, p_told + 1), least(last_seq, p_upto), NULL::bigint, 0::bigint, true, true, path,
               NULL, NULL, NULL::bigint, NULL::bigint
          FROM topics_span
         WHERE topic_id = p_source_id AND home_id IS NULL AND last_seq > p_told AND first_seq <= p_upto
           AND (cardinality(path) < p_max_hops) IS NOT FALSE;
    END IF;
    IF p_op IS NULL AND p_after >= p_holes_seq THEN  -- all seqs are own live records, so they are one run without a look
        RETURN QUERY SELECT p_after + 1, p_upto, p_source_id, p_after + 1, true, true, '{}'::text[], NULL, NULL, NULL::bigint, NULL::bigint
                      WHERE p_after < p_upto;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT min(seq), max(seq), p_source_id, min(seq), true, true, '{}'::text[], NULL, NULL, NULL::bigint, NULL::bigint
      FROM (SELECT seq, seq - row_number() OVER (ORDER BY seq) AS run
              FROM topics_record
             WHERE topic_id = p_source_id AND seq > p_after AND seq <= p_upto AND NOT deleted
               AND (p_op IS NULL OR tag IS NOT DISTINCT FROM p_tag OR (p_op = 'Glob' AND starts_with(tag, p_tag)))) own
     GROUP BY run;
    RETURN QUERY
    SELECT span.first_seq + part.since - span.home_first_seq, span.first_seq + part.upto - span.home_first_seq,
           span.home_id, part.since, span.keep_node, span.keep_tag, span.path,
           span.stamp_router, span.stamp_source, span.stamp_source_id, span.stamp_first_seq + part.since - span.home_first_seq
      FROM (SELECT *, home_first_seq + greatest(p_after + 1 - first_seq, 0) AS home_since,
                   home_last_seq - greatest(last_seq - p_upto, 0) AS home_upto
              FROM topic_spans(p_source_id, p_after + 1, p_upto)
             WHERE shown AND (cardinality(path) < p_max_hops) IS NOT FALSE) span
     CROSS JOIN LATERAL (
           SELECT span.home_since AS since, span.home_upto AS upto WHERE p_op IS NULL
           UNION ALL
           SELECT min(seq), max(seq)
             FROM (SELECT seq, seq - row_number() OVER (ORDER BY seq) AS run
                     FROM topics_record
                    WHERE topic_id = span.home_id AND seq BETWEEN span.home_since AND span.home_upto
                      AND (tag IS NOT DISTINCT FROM p_tag OR (p_op = 'Glob' AND starts_with(tag, p_tag)))) home
            WHERE p_op IS NOT NULL AND span.keep_tag
            GROUP BY run) part;
END
$$;
