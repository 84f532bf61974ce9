-- Returns whether the topic has p_most named cursors. 0: there is no cap. Reads at most p_most of them, by the unique index.
CREATE OR REPLACE FUNCTION topic_cursors_are_full(p_topic_id bigint, p_most bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT p_most > 0 AND p_most <= (SELECT count(*) FROM (
           SELECT FROM topics_cursor WHERE topic_id = p_topic_id AND kind = 'named' LIMIT p_most) named)
$$;
