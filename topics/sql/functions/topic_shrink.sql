-- Takes p_records records with p_bytes off a topic. Advances its floor to p_floor_seq, and then to just below the first live
-- seq: floor_seq + 1 is always live, or the topic is empty. The losses that the floor passes become losses of the floor, so
-- readers still get their tombstones. p_holes_seq is the last record that is now a hole (0: none).
--
-- The function looks for losses only if the floor was below holes_seq, because no piece is above. The caller holds the head row
-- FOR UPDATE, and has marked or counted the records.
CREATE OR REPLACE FUNCTION topic_shrink(
    p_topic_id bigint, p_floor_seq bigint, p_records bigint, p_bytes bigint, p_holes_seq bigint DEFAULT 0
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    head  topics_topichead;
    floor bigint;
BEGIN
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    head.holes_seq := greatest(head.holes_seq, p_holes_seq);
    floor := greatest(head.floor_seq, p_floor_seq);
    IF head.count = p_records THEN
        floor := head.head_seq;
    ELSIF floor < head.holes_seq THEN
        floor := topic_first_live(p_topic_id, floor) - 1;
    END IF;
    IF head.floor_seq < head.holes_seq THEN
        head.restart_lost_seq := greatest(head.restart_lost_seq, topic_last_loss(p_topic_id, head.floor_seq, floor, 'restart'));
        head.source_lost_seq := greatest(head.source_lost_seq, topic_last_loss(p_topic_id, head.floor_seq, floor, 'source_trim'));
        head.capture_lost_seq := greatest(head.capture_lost_seq, topic_last_loss(p_topic_id, head.floor_seq, floor, 'capture'));
    END IF;
    UPDATE topics_topichead
       SET unsettled = true, floor_seq = floor, holes_seq = head.holes_seq, count = count - p_records, bytes = bytes - p_bytes,
           restart_lost_seq = head.restart_lost_seq, source_lost_seq = head.source_lost_seq, capture_lost_seq = head.capture_lost_seq,
           -- Reclaim finds marked rows, which can be above the floor.
           reclaimed_seq = CASE WHEN p_holes_seq > 0 THEN -1 ELSE reclaimed_seq END
     WHERE topic_id = p_topic_id AND era <= head.era;
END
$$;
