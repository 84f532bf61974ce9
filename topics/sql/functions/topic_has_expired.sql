-- Returns whether the first record that a topic shows is older than p_expired_ts (NULL: the topic has no ttl). After topic_expire
-- this means that the topic has holes, and more expired records than one step removes.
CREATE OR REPLACE FUNCTION topic_has_expired(head topics_topichead, p_expired_ts bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN p_expired_ts IS NOT NULL AND head.floor_seq < head.head_seq
       AND topic_seq_at(head.topic_id, head.floor_seq, head.floor_seq + 1, p_expired_ts) > head.floor_seq + 1;
END
$$;
