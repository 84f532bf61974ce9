-- Returns a head as topic_expire would leave it now: the floor just below the first live record, and the losses below this
-- floor. `count` and `bytes` would be those of before, so they are NULL. Records older than p_expired_ts are expired.
--
-- The caller reads the head in the same statement, or in another STABLE function.
CREATE OR REPLACE FUNCTION topic_as_expired(head topics_topichead, p_expired_ts bigint) RETURNS topics_topichead
LANGUAGE plpgsql STABLE AS $$
DECLARE
    cut   bigint := topic_seq_at(head.topic_id, head.floor_seq, head.head_seq, p_expired_ts) - 1;  -- the last expired seq
    floor bigint := cut;
BEGIN
    IF cut <= head.floor_seq THEN
        RETURN head;
    END IF;
    IF cut < head.holes_seq THEN  -- holes may follow
        floor := coalesce(topic_first_live(head.topic_id, cut) - 1, head.head_seq);
    END IF;
    head.ttl_lost_seq := CASE WHEN cut > head.holes_seq THEN cut ELSE topic_last_live(head.topic_id, head.floor_seq, cut) END;
    head.restart_lost_seq := greatest(head.restart_lost_seq, topic_last_loss(head.topic_id, head.floor_seq, floor, 'restart'));
    head.source_lost_seq := greatest(head.source_lost_seq, topic_last_loss(head.topic_id, head.floor_seq, floor, 'source_trim'));
    head.capture_lost_seq := greatest(head.capture_lost_seq, topic_last_loss(head.topic_id, head.floor_seq, floor, 'capture'));
    head.floor_seq := floor;
    head.count := NULL;
    head.bytes := NULL;
    RETURN head;
END
$$;
