-- The heads of topics, one row per topic, for statements of other packages. They lock and write heads with topics/heads.py.
-- The planner replaces the view by its table. So a statement has the same plan with the view as with the table.
CREATE OR REPLACE VIEW topic_heads AS
SELECT topic_id, head_seq, floor_seq, holes_seq, recreated_seq, reserved_seq, count, bytes, total, last_ts, last_read_ts, version,
       routed, derived
  FROM topics_topichead;
