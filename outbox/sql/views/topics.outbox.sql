-- The topics with emitted records that have not arrived: how many, the age of the oldest, and why they wait. Without a reason, the
-- relay has not come to them yet.
CREATE OR REPLACE VIEW topics.outbox AS
SELECT coalesce(waiting.topic, emitted.topic) AS topic,
       coalesce(waiting.records, 0) + coalesce(emitted.records, 0) AS records,
       coalesce(waiting.bytes, 0) + coalesce(emitted.bytes, 0) AS bytes,
       clock_timestamp() - to_timestamp(least(waiting.ts, emitted.ts) / 1000.0) AS age,
       stopped.code, stopped.message AS reason, to_timestamp(stopped.since_ts / 1000.0) AS stopped_at
  FROM (SELECT topic, count(*) AS records, sum(size) AS bytes, min(ts) AS ts FROM outbox_waiting GROUP BY topic) waiting
  FULL JOIN (SELECT topic, count(*) AS records, sum(size) AS bytes, min(ts) AS ts FROM outbox_emitted GROUP BY topic) emitted
         ON emitted.topic = waiting.topic
  LEFT JOIN outbox_stopped stopped ON stopped.topic = waiting.topic;
COMMENT ON VIEW topics.outbox IS 'Emitted records that have not arrived at their topics, by topic, with the age of the oldest and the reason.';
