-- Tells a dest that its source lost p_lost records before a router could forward them. The dest gets as many seqs without a
-- record, for which readers get a tombstone `source_trim`. The caller holds the dest's head FOR UPDATE.
CREATE OR REPLACE FUNCTION router_lose(p_dest_id bigint, p_lost bigint, p_now bigint, p_path text[]) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag, path)
    SELECT topic_id, head_seq + 1, head_seq + p_lost, NULL, 0, 0, greatest(last_ts, p_now), false, true, true, p_path
      FROM topics_topichead WHERE topic_id = p_dest_id;

    UPDATE topics_topichead
       SET head_seq = head_seq + p_lost, holes_seq = head_seq + p_lost, last_ts = greatest(last_ts, p_now),
           reserved_seq = topic_reserve(head_seq + p_lost, reserved_seq)
     WHERE topic_id = p_dest_id
$$;
