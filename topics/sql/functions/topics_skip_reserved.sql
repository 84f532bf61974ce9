-- After a crash of PostgreSQL: every topic goes on above its reserved_seq. The crash may have taken the last moments of the log
-- away (commits that did not wait for the disk), heads included, and somebody may have read them. What lies between the head that
-- was found and reserved_seq is a loss piece, of which readers are told: 'restart'. A reader can stand in the middle of it, with records
-- that are no more: topics_crashloss keeps where it begins, also when the piece is reclaimed (topic_lost_from).
--
-- Appends to `fsync` topics wait for the disk themselves: their head is what it was, and there is no gap.
-- The caller is the only one who writes (topics_recover), so the order in which the heads are locked does not matter.
--
-- Version 2: topics_crashloss.
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
       SET head_seq = head.reserved_seq, holes_seq = head.reserved_seq,
           -- A topic that shows nothing has its floor at its head, and its losses are told from there.
           floor_seq = CASE WHEN head.count = 0 THEN head.reserved_seq ELSE head.floor_seq END,
           restart_lost_seq = CASE WHEN head.count = 0 THEN head.reserved_seq ELSE head.restart_lost_seq END
      FROM behind
     WHERE head.topic_id = behind.topic_id
$$;
