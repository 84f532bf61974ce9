-- Advances the floor past the records that are older than the topic's ttl_ms. Reads are exact without it. It keeps count and
-- bytes small, and lets reclaim free the rows. The caller holds the head row FOR UPDATE. Records older than p_expired_ts are
-- expired. NULL means that the topic has no ttl.
--
-- PL/pgSQL keeps the plan. PostgreSQL cannot inline this query, and would plan an SQL function again at each call.
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
