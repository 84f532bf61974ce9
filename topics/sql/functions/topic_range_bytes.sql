-- Returns the payload bytes of the home records p_first..p_last, as the difference of two running totals. All of them must be
-- stored.
--
-- PL/pgSQL keeps the plan. PostgreSQL cannot inline this query, and would plan an SQL function again at each call.
CREATE OR REPLACE FUNCTION topic_range_bytes(p_home_id bigint, p_first bigint, p_last bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT total FROM topics_record WHERE topic_id = p_home_id AND seq = p_last)
         - (SELECT total - size FROM topics_record WHERE topic_id = p_home_id AND seq = p_first);
END
$$;
