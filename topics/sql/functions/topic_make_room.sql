-- Evicts the oldest records of a topic that exceeds its caps (0: no cap), after an append of p_records records with p_bytes (as in
-- topic_evict). If the topic has a ttl, evicted records older than p_expired_ts count as expired. The ttl hides other expired records
-- from readers, and a later step removes them (upkeep/retention.py). The caller holds the head's lock, and reads the head in the same
-- statement.
--
-- A whole topic (topic_is_whole.sql) needs no count of its records: one update computes its figures from seqs and running totals.
CREATE OR REPLACE FUNCTION topic_make_room(
    head topics_topichead, p_expired_ts bigint, p_cap_records bigint, p_cap_bytes bigint,
    p_records bigint DEFAULT NULL, p_bytes bigint DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    floor   bigint := head.floor_seq;
    expired bigint := head.floor_seq;  -- the last evicted seq that has expired
BEGIN
    IF NOT topic_is_whole(head) THEN
        PERFORM topic_evict(head.topic_id, p_cap_records, p_cap_bytes, p_expired_ts, p_records, p_bytes);
        RETURN;
    END IF;
    IF p_cap_records > 0 THEN
        floor := greatest(floor, head.head_seq - p_cap_records);
    END IF;
    IF p_cap_bytes > 0 AND head.bytes > p_cap_bytes THEN
        floor := greatest(floor, topic_seq_of_bytes(head.topic_id, head.floor_seq + 1, head.head_seq, head.bytes - p_cap_bytes));
    END IF;
    IF p_expired_ts IS NOT NULL THEN
        expired := topic_seq_at(head.topic_id, head.floor_seq, floor, p_expired_ts) - 1;
    END IF;
    UPDATE topics_topichead
       SET floor_seq = floor, unsettled = true,
           count = head.head_seq - floor,
           bytes = head.total - (SELECT total FROM topics_record WHERE topic_id = head.topic_id AND seq = floor),
           ttl_lost_seq = CASE WHEN expired > head.floor_seq THEN expired ELSE head.ttl_lost_seq END,
           cap_lost_seq = CASE WHEN expired < floor THEN floor ELSE head.cap_lost_seq END
     WHERE topic_id = head.topic_id AND era <= head.era;
END
$$;
