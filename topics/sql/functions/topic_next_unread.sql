-- Returns seq and $ts of the first record above p_after that a topic shows, or NULLs.
--
-- PL/pgSQL keeps the plan. PostgreSQL cannot inline this query, and would plan an SQL function again at each call.
CREATE OR REPLACE FUNCTION topic_next_unread(p_topic_id bigint, p_after bigint, OUT seq bigint, OUT ts bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    SELECT next.seq, next.ts INTO seq, ts FROM (
        (SELECT seq, ts FROM topics_record
          WHERE topic_id = p_topic_id AND seq > p_after AND NOT deleted ORDER BY seq LIMIT 1)
        UNION ALL
        (SELECT greatest(first_seq, p_after + 1), ts FROM topics_span
          WHERE topic_id = p_topic_id AND last_seq > p_after AND shown ORDER BY last_seq LIMIT 1)) next (seq, ts)
     ORDER BY next.seq LIMIT 1;
END
$$;
