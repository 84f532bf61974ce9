-- Deletes the records that a topic shows below p_before_seq. Above holes_seq only the floor advances, in constant time. Returns
-- the number of deleted records, and the topic's figures after the delete. If p_version is not the current version, it returns
-- no row and changes nothing. p_expired_ts is as in topic_expire.
--
-- In a topic with holes it counts entries: those below p_before_seq, or those above if they are fewer (topic_trim). If both are more
-- than topic_step(), it expires or deletes the oldest topic_step() entries only. Then earliest_seq is still below p_before_seq and not above the
-- head, and the caller calls again. So appends do not wait for a long count.
CREATE OR REPLACE FUNCTION topic_delete_below(
    p_topic_id bigint, p_version bigint, p_expired_ts bigint, p_before_seq bigint
) RETURNS TABLE (deleted bigint, earliest_seq bigint, head_seq bigint, count bigint, bytes bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    head topics_topichead;
BEGIN
    PERFORM FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version LIMIT 1 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_expired_ts IS NOT NULL THEN  -- an expired record was lost, not deleted
        PERFORM topic_expire(p_topic_id, p_expired_ts);
    END IF;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    deleted := 0;
    IF NOT topic_has_expired(head, p_expired_ts) THEN
        SELECT records INTO deleted
          FROM topic_trim(p_topic_id, topic_step_end(p_topic_id, least(p_before_seq - 1, head.head_seq)), 'delete');
    END IF;
    RETURN QUERY
    SELECT deleted, floor_seq + 1, head_seq, count, bytes FROM topics_topichead WHERE topic_id = p_topic_id LIMIT 1;
END
$$;
