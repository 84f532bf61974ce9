-- Move the floor past what is older than the topic's ttl_ms. Reads are exact without it; it keeps count and bytes small
-- and lets reclaim work. The caller holds the head row FOR UPDATE. p_expired_ts: older is gone; NULL: the topic has no ttl.
--
-- Version 2: in PL/pgSQL, which keeps its plan; a function in SQL, which cannot be put in line here, is set up anew at each call.
CREATE OR REPLACE FUNCTION topic_expire(p_topic_id bigint, p_expired_ts bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    IF p_expired_ts IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT (topic_trim(topic_id, topic_seq_at(topic_id, floor_seq, head_seq, p_expired_ts) - 1, 'ttl')).records
          FROM topics_topichead WHERE topic_id = p_topic_id);
END
$$;
