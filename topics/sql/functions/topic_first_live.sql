-- Returns the first seq above p_after that the topic shows, or NULL.
--
-- PL/pgSQL keeps the plan. PostgreSQL cannot inline this query, and would plan an SQL function again at each call.
CREATE OR REPLACE FUNCTION topic_first_live(p_topic_id bigint, p_after bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN least(
        (SELECT seq FROM topics_record
          WHERE topic_id = p_topic_id AND seq > p_after AND NOT deleted ORDER BY seq LIMIT 1),
        (SELECT greatest(first_seq, p_after + 1) FROM topics_span
          WHERE topic_id = p_topic_id AND last_seq > p_after AND shown ORDER BY last_seq LIMIT 1));
END
$$;
