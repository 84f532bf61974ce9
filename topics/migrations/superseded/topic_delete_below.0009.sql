-- Deletes the records that a topic shows below p_before_seq. Above holes_seq only the floor advances, in constant time. Returns
-- the number of deleted records, and the topic's figures after the delete. If p_version is not the current version, it returns
-- no row and changes nothing. p_expired_ts is as in topic_expire.
CREATE OR REPLACE FUNCTION topic_delete_below(
    p_topic_id bigint, p_version bigint, p_expired_ts bigint, p_before_seq bigint
) RETURNS TABLE (deleted bigint, earliest_seq bigint, head_seq bigint, count bigint, bytes bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_expired_ts IS NOT NULL THEN  -- an expired record was lost, not deleted
        PERFORM topic_expire(p_topic_id, p_expired_ts);
    END IF;
    SELECT records INTO deleted FROM topic_trim(p_topic_id, p_before_seq - 1, 'delete');
    RETURN QUERY
    SELECT deleted, floor_seq + 1, head_seq, count, bytes FROM topics_topichead WHERE topic_id = p_topic_id;
END
$$;
