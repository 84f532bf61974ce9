-- Returns the last head of a name: the head of its deleted topic, stored at the delete, or 0.
--
-- The function is VOLATILE, so that it reads with a new snapshot. The statement that creates a topic can have waited for the
-- name. Since it began, another topic with the name can have been created, written and deleted. The caller holds the name.
CREATE OR REPLACE FUNCTION topic_last_head(p_name text) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN coalesce((SELECT head_seq FROM topics_lasthead WHERE name = p_name COLLATE "C"), 0);
END
$$;
