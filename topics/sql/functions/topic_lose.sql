-- Tells a topic that p_lost records were lost before it could get them. It gets as many seqs without a record, for which readers get a
-- tombstone (topic_loss_reason). In an empty topic the loss sinks below the floor (topic_shrink). Returns the head of before, and the time
-- of the loss. The caller holds the head FOR UPDATE.
CREATE OR REPLACE FUNCTION topic_lose(p_topic_id bigint, p_lost bigint, p_now bigint, p_path text[], OUT before_seq bigint, OUT ts bigint)
LANGUAGE sql AS $$
    INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag, path)
    SELECT topic_id, head_seq + 1, head_seq + p_lost, NULL, 0, 0, greatest(last_ts, p_now), false, true, true, p_path
      FROM topics_topichead WHERE topic_id = p_topic_id LIMIT 1;

    UPDATE topics_topichead
       SET head_seq = head_seq + p_lost, era = topic_era(head_seq + p_lost), holes_seq = head_seq + p_lost, last_ts = greatest(last_ts, p_now),
           reserved_seq = topic_reserve(head_seq + p_lost, reserved_seq), unsettled = true
     WHERE topic_id = p_topic_id;

    SELECT topic_shrink(topic_id, floor_seq, 0, 0) FROM topics_topichead WHERE topic_id = p_topic_id AND count = 0 LIMIT 1;

    SELECT head_seq - p_lost, last_ts FROM topics_topichead WHERE topic_id = p_topic_id LIMIT 1;
$$;
