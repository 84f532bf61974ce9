-- Returns up to which seq a transaction removes records, if it wants to remove all up to p_upto: the end of the next topic_step()
-- entries above the floor, if topic_trim would count more than these. The caller holds the head's lock.
--
-- Marked records are entries, too, because a count of the live ones passes them.
CREATE OR REPLACE FUNCTION topic_step_end(p_topic_id bigint, p_upto bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    head topics_topichead;
BEGIN
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    IF least(p_upto - head.floor_seq, head.holes_seq - p_upto) <= topic_step() OR topic_is_whole(head) THEN
        RETURN p_upto;
    END IF;
    RETURN least(p_upto,
        (SELECT seq FROM topics_record
          WHERE topic_id = head.topic_id AND seq > head.floor_seq AND seq <= p_upto ORDER BY seq OFFSET topic_step() - 1 LIMIT 1),
        (SELECT last_seq FROM topics_span
          WHERE topic_id = head.topic_id AND last_seq > head.floor_seq AND last_seq <= p_upto
          ORDER BY last_seq OFFSET topic_step() - 1 LIMIT 1));
END
$$;
