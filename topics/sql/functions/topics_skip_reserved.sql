-- After a crash of PostgreSQL, every topic continues above its reserved_seq. The crash can have taken back the last commits
-- that did not wait for the disk, with their heads. Readers can have seen them. The seqs from the head that PostgreSQL has now
-- to reserved_seq become a loss piece, so that readers get a tombstone 'restart'. A reader can be in the middle of this piece,
-- with records that do not exist any more. topics_crashloss keeps where the piece begins, also after reclaim deleted it
-- (topic_lost_from).
--
-- Appends to `fsync` topics wait for the disk themselves, so these topics have no gap. The caller is the only writer
-- (topics_recover), so the order in which it locks heads does not matter.
CREATE OR REPLACE FUNCTION topics_skip_reserved() RETURNS void
LANGUAGE sql AS $$
    WITH behind AS (
        SELECT head.topic_id, head.head_seq, head.reserved_seq, head.last_ts
          FROM topics_topichead head JOIN topics_topic topic ON topic.id = head.topic_id
         WHERE head.reserved_seq > head.head_seq AND topic.durability <> 'fsync'),
    told AS (
        INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,
                                  keep_tag, path)
        SELECT topic_id, head_seq + 1, reserved_seq, NULL, 0, 0, last_ts, false, true, true, '{}' FROM behind),
    kept AS (
        INSERT INTO topics_crashloss (topic_id, first_seq, last_seq) SELECT topic_id, head_seq + 1, reserved_seq FROM behind)
    UPDATE topics_topichead head
       SET head_seq = head.reserved_seq, era = topic_era(head.reserved_seq), holes_seq = head.reserved_seq,
           unsettled = true,
           -- A topic without live records has its floor at its head, and the floor has its losses.
           floor_seq = CASE WHEN head.count = 0 THEN head.reserved_seq ELSE head.floor_seq END,
           restart_lost_seq = CASE WHEN head.count = 0 THEN head.reserved_seq ELSE head.restart_lost_seq END
      FROM behind
     WHERE head.topic_id = behind.topic_id
$$;
