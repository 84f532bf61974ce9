-- Returns which of the home records p_first..p_last any topic shows through a span. Of each shown span, only the part above its
-- topic's floor counts.
--
-- A span has at most 100,000 seqs. So a span that shows p_last ends before p_last + 100000. A span of fewer than 1,000 seqs
-- ends before p_last + 1000, and the longer ones have an index (topics_span_long).
--
-- PL/pgSQL keeps the plan. PostgreSQL cannot inline this query, and would plan an SQL function again at each call.
CREATE OR REPLACE FUNCTION reclaim_covered(p_home_id bigint, p_first bigint, p_last bigint) RETURNS int8multirange
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT coalesce(range_agg(int8range(home_first_seq + greatest(floor_seq + 1 - first_seq, 0), home_last_seq, '[]')), '{}')
          FROM (SELECT * FROM topics_span
                 WHERE home_id = p_home_id AND home_last_seq >= p_first AND home_last_seq < p_last + 1000
                UNION ALL
                SELECT * FROM topics_span
                 WHERE home_id = p_home_id AND home_last_seq >= p_last + 1000 AND home_last_seq < p_last + 100000
                   AND home_last_seq - home_first_seq >= 1000) span
         CROSS JOIN LATERAL (SELECT floor_seq FROM topics_topichead WHERE topic_id = span.topic_id OFFSET 0) head  -- a deleted topic shows no records
         WHERE shown AND home_first_seq <= p_last AND last_seq > floor_seq);
END
$$;
