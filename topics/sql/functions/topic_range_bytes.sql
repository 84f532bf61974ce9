-- Payload bytes of the home records first..last, which must all be stored: the difference of two running totals.
--
-- Version 2: in PL/pgSQL, which keeps its plan; a function in SQL, which cannot be put in line here, is set up anew at each call.
CREATE OR REPLACE FUNCTION topic_range_bytes(p_home_id bigint, p_first bigint, p_last bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT total FROM topics_record WHERE topic_id = p_home_id AND seq = p_last)
         - (SELECT total - size FROM topics_record WHERE topic_id = p_home_id AND seq = p_first);
END
$$;
