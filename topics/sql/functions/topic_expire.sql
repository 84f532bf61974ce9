-- Advances the floor past the records that are older than the topic's ttl_ms. Reads are exact without it. It keeps count and
-- bytes small, and lets reclaim free the rows. The caller holds the head row FOR UPDATE. Records older than p_expired_ts are
-- expired. NULL means that the topic has no ttl.
--
-- Returns the number of expired records. In a topic with holes it takes one step (topic_step_end): 0 means that no expired record
-- is left.
CREATE OR REPLACE FUNCTION topic_expire(p_topic_id bigint, p_expired_ts bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    head topics_topichead;
BEGIN
    IF p_expired_ts IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    RETURN (
        SELECT records FROM topic_trim(
            p_topic_id, topic_step_end(p_topic_id, topic_seq_at(p_topic_id, head.floor_seq, head.head_seq, p_expired_ts) - 1), 'ttl'));
END
$$;
