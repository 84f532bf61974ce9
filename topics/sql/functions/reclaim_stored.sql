-- Returns whether any of these home records is still stored.
CREATE OR REPLACE FUNCTION reclaim_stored(p_home_id bigint, p_first bigint, p_last bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM topics_record WHERE topic_id = p_home_id AND seq >= p_first AND seq <= p_last)
$$;
