-- Returns what a topic shows now: its first live seq, and the number of records and payload bytes. This is exact under a ttl,
-- because the function subtracts the records that expired since the floor last advanced. It writes no row. The caller reads the
-- head in the same statement.
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
