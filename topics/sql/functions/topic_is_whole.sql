-- Returns whether a topic shows each seq above its floor as a record of its own. Then its count is a difference of seqs, and its
-- bytes are a difference of running totals. The caller holds the head's lock.
--
-- holes_seq alone does not tell this. It advances with each volatile record, because a crash can delete the record.
CREATE OR REPLACE FUNCTION topic_is_whole(head topics_topichead) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN head.floor_seq >= head.holes_seq
        OR head.count = head.head_seq - head.floor_seq
       AND (SELECT last_seq FROM topics_span
             WHERE topic_id = head.topic_id AND last_seq > head.floor_seq ORDER BY last_seq LIMIT 1) IS NULL;
END
$$;
