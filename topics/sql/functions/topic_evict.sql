-- Evicts the oldest records of a topic that exceeds its caps (0: no cap). Returns the number of evicted records (NULL: it
-- exceeds none). Evicted records older than p_expired_ts count as expired (NULL: the topic has no ttl). The caller holds the head
-- row FOR UPDATE.
--
-- The caller has appended p_records records with p_bytes, or more (NULL: any number). A topic that exceeds its caps by more than these
-- got lower caps, and its records go in steps of topic_step() entries: this call takes one.
CREATE OR REPLACE FUNCTION topic_evict(
    p_topic_id bigint, p_cap_records bigint, p_cap_bytes bigint,
    p_expired_ts bigint DEFAULT NULL, p_records bigint DEFAULT NULL, p_bytes bigint DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    head    topics_topichead;
    over_records bigint;
    over_bytes   bigint;
    floor   bigint;
    expired bigint := 0;  -- evicted records that have expired
BEGIN
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    over_records := CASE WHEN p_cap_records > 0 THEN head.count - p_cap_records ELSE 0 END;
    over_bytes := CASE WHEN p_cap_bytes > 0 THEN head.bytes - p_cap_bytes ELSE 0 END;
    IF over_records <= 0 AND over_bytes <= 0 OR head.topic_id IS NULL THEN
        RETURN NULL;
    END IF;
    floor := topic_floor_for(p_topic_id, over_records, over_bytes,
                             CASE WHEN over_records > p_records OR over_bytes > p_bytes THEN topic_step() END);
    IF p_expired_ts IS NOT NULL THEN
        SELECT records INTO expired
          FROM topic_trim(p_topic_id, topic_seq_at(p_topic_id, head.floor_seq, floor, p_expired_ts) - 1, 'ttl');
    END IF;
    RETURN expired + (SELECT records FROM topic_trim(p_topic_id, floor, 'cap'));
END
$$;
