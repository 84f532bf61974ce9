-- Returns the last seq in (p_after, p_upto] that was lost for the reason p_why before a reader could get it, or NULL. A loss is
-- a piece without a home (topic_loss_reason.sql).
--
-- PL/pgSQL keeps the plan. PostgreSQL cannot inline this query, and would plan an SQL function again at each call.
CREATE OR REPLACE FUNCTION topic_last_loss(p_topic_id bigint, p_after bigint, p_upto bigint, p_why text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT last_seq FROM topics_span
         WHERE topic_id = p_topic_id AND last_seq > p_after AND last_seq <= p_upto AND home_id IS NULL
           AND topic_loss_reason(path) = p_why
         ORDER BY last_seq DESC LIMIT 1);
END
$$;
