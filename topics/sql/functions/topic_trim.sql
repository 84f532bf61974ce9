-- Advances a topic's floor to p_upto: no reader can see the records up to it any more. Reclaim deletes their rows later. p_why
-- is 'cap', 'ttl' or 'restart' (lost: readers get a tombstone), or 'delete' (readers get none). The caller holds the head row
-- FOR UPDATE. Returns the number and bytes of the records that the topic showed until now.
--
-- The head knows count and bytes, so a removal counts either the records that go or those that stay: the side that has few entries
-- below holes_seq. If both sides have many, a delete by before_seq, expiry and a lower cap go in steps (topic_step_end), each in a
-- transaction of its own. Each step counts under the lock of the head, which appends and spans need, too. A mark becomes visible
-- with the commit of its delete, which counts it under this lock. So steps of several callers can mix, and a crash between two
-- steps leaves a smaller removal.
CREATE OR REPLACE FUNCTION topic_trim(
    p_topic_id bigint, p_upto bigint, p_why text, OUT records bigint, OUT bytes bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    head  topics_topichead;
    upto  bigint;
    holes bigint;  -- no hole and no span is above this seq
    lost  bigint;  -- the last trimmed record: no reader lost the hole after it
BEGIN
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    upto := least(p_upto, head.head_seq);
    IF upto <= head.floor_seq THEN
        records := 0; bytes := 0;
        RETURN;
    END IF;
    holes := CASE WHEN topic_is_whole(head) THEN head.floor_seq ELSE head.holes_seq END;
    -- The head knows what the topic shows in all. So the rest can be counted instead, if it has few entries below holes_seq.
    IF holes - upto < least(upto - head.floor_seq, topic_step()) THEN
        SELECT head.count - e.records, head.bytes - e.bytes INTO records, bytes
          FROM topic_extent(p_topic_id, upto + 1, head.head_seq, holes) e;
    ELSE
        SELECT e.records, e.bytes INTO records, bytes FROM topic_extent(p_topic_id, head.floor_seq + 1, upto, holes) e;
    END IF;
    IF p_why <> 'delete' AND records > 0 THEN
        lost := CASE WHEN upto > holes THEN upto ELSE topic_last_live(p_topic_id, head.floor_seq, upto) END;
        UPDATE topics_topichead
           SET cap_lost_seq = CASE WHEN p_why = 'cap' THEN lost ELSE cap_lost_seq END,
               ttl_lost_seq = CASE WHEN p_why = 'ttl' THEN lost ELSE ttl_lost_seq END,
               restart_lost_seq = CASE WHEN p_why = 'restart' THEN lost ELSE restart_lost_seq END
         WHERE topic_id = p_topic_id AND era <= head.era;
    END IF;
    PERFORM topic_shrink(p_topic_id, upto, records, bytes);
END
$$;
