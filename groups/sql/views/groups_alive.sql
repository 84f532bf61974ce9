-- The members whose sessions have not timed out, by PostgreSQL's clock. No process may be left to end the session of a killed member,
-- so whoever shows members reads this view.
CREATE OR REPLACE VIEW groups_alive AS
SELECT id, group_id, name, session_ms, joined_ts, seen_ts
  FROM groups_member
 WHERE seen_ts + session_ms >= extract(epoch FROM clock_timestamp()) * 1000;
