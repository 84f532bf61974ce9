-- The positions of all readers, for statements of other packages. They lock and write cursors with topics/cursors/owned.py.
-- The planner replaces the view by its table. So a statement has the same plan with the view as with the table.
CREATE OR REPLACE VIEW topic_cursors AS
SELECT id, topic_id, kind, name, seq, forwarded_total, updated_ts FROM topics_cursor;
