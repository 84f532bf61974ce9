-- The captured tables. A login sees the captures of its own tables.
CREATE OR REPLACE VIEW topics.captures AS
SELECT named AS "table", topic,
       CASE WHEN NOT EXISTS (SELECT FROM pg_class WHERE oid = relid) THEN 'dropped'
            WHEN NOT capture_has_trigger(relid, id) THEN 'without triggers'
            WHEN snapshot = 'running' THEN 'snapshot'
            ELSE 'live' END AS state,
       array_to_string(key, ', ') AS key, array_to_string(columns, ', ') AS columns, CASE WHEN fails THEN 'fail' ELSE 'skip' END AS on_error,
       snapshotted AS snapshot_rows,
       (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = relid) AS estimated_rows,
       changes,
       coalesce(clock_timestamp() - to_timestamp(least((SELECT min(ts) FROM outbox_emitted e WHERE e.topic = c.topic),
                                                       (SELECT min(ts) FROM outbox_waiting w WHERE w.topic = c.topic)) / 1000.0), '0') AS lag,
       lost, error, to_timestamp(error_ts / 1000.0) AS error_at
  FROM outbox_capture c
 WHERE session_user = current_user AND pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = 'outbox_capture'::regclass), 'MEMBER')
    OR pg_has_role(session_user, to_regrole(quote_ident(owner)), 'MEMBER');
COMMENT ON VIEW topics.captures IS 'The captured tables, with the state, the rows that the snapshot has sent, the changes that have arrived, the age of the oldest that has not, and the changes that were lost.';
