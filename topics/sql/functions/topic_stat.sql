-- What a topic shows right now: its first live seq, and how many records and payload bytes. Exact under a ttl, and writes
-- nothing: what is over its time since the floor last moved is taken off. The caller reads the head in the same statement.
CREATE OR REPLACE FUNCTION topic_stat(
    p_head topics_topichead, p_expired_ts bigint, OUT earliest_seq bigint, OUT records bigint, OUT payload bigint
)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    cut  bigint;
    gone record;
BEGIN
    earliest_seq := p_head.floor_seq + 1;
    records := p_head.count;
    payload := p_head.bytes;
    IF p_expired_ts IS NULL OR records = 0 THEN
        RETURN;
    END IF;
    cut := topic_seq_at(p_head.topic_id, p_head.floor_seq, p_head.head_seq, p_expired_ts) - 1;
    IF cut <= p_head.floor_seq THEN
        RETURN;
    END IF;
    SELECT * INTO gone FROM topic_extent(p_head.topic_id, p_head.floor_seq + 1, cut, p_head.holes_seq);
    records := records - gone.records;
    payload := payload - gone.bytes;
    earliest_seq := coalesce(topic_first_live(p_head.topic_id, cut), p_head.head_seq + 1);
END
$$;
