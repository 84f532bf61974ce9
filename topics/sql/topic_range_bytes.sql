-- Payload bytes of the home records first..last, which must all be stored: the difference of two running totals.
CREATE OR REPLACE FUNCTION topic_range_bytes(p_home_id bigint, p_first bigint, p_last bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT (SELECT total FROM topics_record WHERE topic_id = p_home_id AND seq = p_last)
         - (SELECT total - size FROM topics_record WHERE topic_id = p_home_id AND seq = p_first)
$$;
