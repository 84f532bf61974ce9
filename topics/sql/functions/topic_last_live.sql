-- Returns the last seq in (p_after, p_upto] that the topic shows, or NULL.
--
-- PL/pgSQL keeps the plan. PostgreSQL cannot inline this query, and would plan an SQL function again at each call.
CREATE OR REPLACE FUNCTION topic_last_live(p_topic_id bigint, p_after bigint, p_upto bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN greatest(
        (SELECT seq FROM topics_record
          WHERE topic_id = p_topic_id AND seq > p_after AND seq <= p_upto AND NOT deleted ORDER BY seq DESC LIMIT 1),
        (SELECT last_seq FROM topics_span
          WHERE topic_id = p_topic_id AND last_seq > p_after AND last_seq <= p_upto AND shown ORDER BY last_seq DESC LIMIT 1),
        (SELECT p_upto FROM (SELECT first_seq, shown FROM topics_span
                              WHERE topic_id = p_topic_id AND last_seq > p_upto ORDER BY last_seq LIMIT 1) beyond
          WHERE first_seq <= p_upto AND shown));
END
$$;
