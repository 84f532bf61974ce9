-- Returns true if no record that a reader planned to read was lost, in the snapshot of the statement that reads it. Otherwise it raises
-- an error that names what is missing. p_floor is the topic's floor at the time of the plan, and p_first the first seq that this
-- statement reads. Deleted records do not count: readers get no tombstone for deletes.
CREATE OR REPLACE FUNCTION pipeline_check(p_topic text, p_topic_id bigint, p_floor bigint, p_first bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    head topics_topichead;
    ttl  bigint;
    lost bigint;  -- the last lost seq below the floor
BEGIN
    SELECT ttl_ms INTO ttl FROM topics_topic WHERE id = p_topic_id;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    IF head.topic_id IS NULL OR ttl IS NULL THEN
        RAISE EXCEPTION 'topic % was deleted while it was read', p_topic USING ERRCODE = 'data_exception';
    END IF;
    IF ttl > 0 THEN
        head := topic_as_expired(head, (extract(epoch FROM statement_timestamp()) * 1000)::bigint - ttl);
    END IF;
    lost := greatest(head.cap_lost_seq, head.ttl_lost_seq, head.restart_lost_seq, head.source_lost_seq, head.capture_lost_seq);
    IF lost > p_floor AND lost >= p_first THEN
        RAISE EXCEPTION 'topic % lost its records up to seq % while it was read', p_topic, lost USING ERRCODE = 'data_exception';
    END IF;
    RETURN true;
END
$$;
