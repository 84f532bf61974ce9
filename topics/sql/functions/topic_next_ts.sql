-- Returns the $ts of the first record above p_after that a topic shows, or NULL. This is how long a reader has not read it.
CREATE OR REPLACE FUNCTION topic_next_ts(p_topic_id bigint, p_after bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT ts FROM topic_next_unread(p_topic_id, p_after));
END
$$;
