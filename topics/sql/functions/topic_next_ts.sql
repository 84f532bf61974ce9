-- Returns the $ts of the first record above p_after that a topic shows, or NULL. This is how long a reader has not read it.
--
-- PL/pgSQL keeps the plan. PostgreSQL cannot inline this query, and would plan an SQL function again at each call.
CREATE OR REPLACE FUNCTION topic_next_ts(p_topic_id bigint, p_after bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT ts FROM (
            (SELECT seq, ts FROM topics_record
              WHERE topic_id = p_topic_id AND seq > p_after AND NOT deleted ORDER BY seq LIMIT 1)
            UNION ALL
            (SELECT last_seq, ts FROM topics_span
              WHERE topic_id = p_topic_id AND last_seq > p_after AND shown ORDER BY last_seq LIMIT 1)) next (seq, ts)
         ORDER BY seq LIMIT 1);
END
$$;
