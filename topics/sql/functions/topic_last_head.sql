-- The last head of a name: that of the topic that had the name before, kept when that topic was deleted; 0 where there was none.
--
-- VOLATILE, so that it looks with a snapshot of its own: the statement that creates a topic may have waited for the name, and the
-- topic that had it meanwhile may have been created, written and deleted since that statement began. The caller has taken the name.
CREATE OR REPLACE FUNCTION topic_last_head(p_name text) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN coalesce((SELECT head_seq FROM topics_lasthead WHERE name = p_name COLLATE "C"), 0);
END
$$;
