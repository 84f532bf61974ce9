-- Makes topics from %(first)s to %(last)s with 5 records each, samples and rollups of some, and audit entries. `whole`: also
-- routers, readers, queues, groups, subscribers and watch sessions of some. A few routers and readers lag.
CREATE TEMPORARY TABLE filled ON COMMIT DROP AS
WITH made AS (
    INSERT INTO topics_topic (name, type, ttl_ms, cap_records, cap_bytes, discard, durability, auto_priority, auto_create,
                              idempotency_window_ms, dedupe_node, lease_ms, claim_jitter_ms, max_deliveries, leases_durable,
                              dead_letter, created_ts)
    SELECT CASE n %% 1000 WHEN 1 THEN 'bus:b' || n WHEN 2 THEN 'queue:b' || n ELSE 't' || n %% 10 || '.' || lpad(n::text, 6, '0') END,
           CASE WHEN %(whole)s AND n %% 50 = 3 THEN 'queue' ELSE 'log' END,
           0, 0, 0, 'old', 'disk', true, true, 0, true, 30000, 0, 0, true,
           CASE WHEN %(whole)s AND n %% 50 = 3 THEN 'dead' END, 0
      FROM generate_series(%(first)s, %(last)s) n
    RETURNING id, name, type)
SELECT id, name, type, %(first)s - 1 + row_number() OVER (ORDER BY id) AS n FROM made;
CREATE TEMPORARY TABLE owners ON COMMIT DROP AS SELECT * FROM filled WHERE %(whole)s;
INSERT INTO topics_topichead (topic_id, head_seq, reserved_seq, floor_seq, cap_lost_seq, ttl_lost_seq, restart_lost_seq,
                              source_lost_seq, holes_seq, count, bytes, total, last_ts, last_read_ts, version,
                              counted_seq, counted_count, counted_bytes, unsettled)
SELECT id, 5, 5, 0, 0, 0, 0, 0, 0, 5, 50, 50, %(now)s - 7200000, 0, 1, 5, 5, 50, false FROM filled;
INSERT INTO topics_total (topics, records, bytes) SELECT count(*), 5 * count(*), 50 * count(*) FROM filled;
INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, node, tag, data)
SELECT id, seq, CASE WHEN type = 'log' OR n %% 500 = 3 THEN %(now)s - 7200000 ELSE %(now)s END + seq, seq * 10, 10, 'n', 'tag', '"23456789"' FROM filled, generate_series(1, 5) seq;
CREATE TEMPORARY TABLE led ON COMMIT DROP AS
SELECT source.id AS source_id, dest.id AS dest_id, source.name || '>' || dest.name AS name, dest.n
  FROM owners dest JOIN owners source ON source.n = dest.n - 1 WHERE dest.n %% 200 IN (11, 12, 13, 14) OR dest.n %% 1000 = 2;
INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
SELECT source_id, 'router', name, CASE n %% 12 WHEN 0 THEN 3 ELSE 5 END, 3, %(now)s - 7000000 FROM led;
INSERT INTO routers_router (name, source_id, dest_id, cursor_id, preserve_node, preserve_tag, allow_cycle, allow_fan_in,
                            cyclic, guarantee, state, errors_total, retry_ts, retry_ms, created_ts)
SELECT led.name, source_id, dest_id, c.id, true, true, false, false, false, 'at_least_once', 'running', 0, 0, 0, 0
  FROM led JOIN topics_cursor c ON c.topic_id = source_id AND c.name = led.name AND c.kind = 'router';
UPDATE topics_topichead head SET routed = true, unsettled = lags.any, reserved_seq = CASE WHEN lags.any THEN 1000 ELSE 5 END
  FROM (SELECT source_id, bool_or(n %% 12 = 0) AS any FROM led GROUP BY 1) lags WHERE topic_id = source_id;
INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
SELECT id, 'named', 'reader' || n, CASE n %% 20 WHEN 4 THEN 4 ELSE 5 END, 0, %(now)s - 7000000 FROM owners WHERE n %% 10 = 4;
INSERT INTO queues_queue (topic_id, durable, next_seq, floor_seq, in_flight, delayed, low_ts, swept_ts)
SELECT id, true, 3, 0, 1, 0, 0, %(now)s - 6000000 FROM owners WHERE type = 'queue';
INSERT INTO queues_lease (topic_id, seq, durable, node, id, deadline, deliveries, claimed_ts)
SELECT id, 1, true, 'worker', gen_random_uuid(), %(now)s + 600000, 1, %(now)s FROM owners WHERE type = 'queue';
INSERT INTO queues_schedule (topic_id, name, cron, timezone, due_ts, try_ts, data)
SELECT id, 'nightly', '0 3 * * *', 'UTC', %(now)s + 600000, %(now)s + 600000, '1' FROM owners WHERE type = 'queue' AND n %% 100 = 3;
INSERT INTO groups_group (topic_id, name, partition_by, partitions, start, created_ts)
SELECT id, 'group' || n, 'tag', 2, 'earliest', 0 FROM owners WHERE n %% 500 = 25;
INSERT INTO groups_share (group_id, share, seq, updated_ts)
SELECT g.id, share, 3, 0 FROM groups_group g, generate_series(0, 1) share WHERE g.topic_id IN (SELECT id FROM owners);
INSERT INTO push_busclient (name, token, created_ts) SELECT 'client' || n, 'token' || n, 0 FROM owners WHERE n %% 1000 = 1;
INSERT INTO push_bustopic (name, publisher_id, created_ts)
SELECT substr(f.name, 5), c.id, 0 FROM owners f JOIN push_busclient c ON c.name = 'client' || f.n WHERE f.n %% 1000 = 1;
INSERT INTO push_subscriber (client_id, queue, callback, timeout_ms, max_events, paused, created_ts, health, retry_ts,
                             sent_total, dropped_total, dropped, lease, leased_until_ts, batch_attempts, batch_ts)
SELECT c.id, f.name, 'https://example.com/', 500, 100, false, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0
  FROM owners f JOIN push_busclient c ON c.name = 'client' || f.n - 1 WHERE f.n %% 1000 = 2;
INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
SELECT f.id, 'subscription', 'push', 5, 0, 0 FROM owners f JOIN push_subscriber s ON s.queue = f.name;
INSERT INTO push_delivery (subscriber_id, ts, batch_id, attempt, status, duration_ms, events, bytes)
SELECT client_id, %(now)s, 'batch' || each, 1, 200, 5, 10, 100
  FROM push_subscriber s JOIN owners f ON f.name = s.queue, generate_series(1, 20) each;
INSERT INTO push_webhook (name, prefixes, url, config, secret, created_ts, updated_ts, failures, last_error)
SELECT 'hook' || n, '', 'https://example.com/', json_build_object('topics', json_build_array(name)), 'whsec_', 0, 0, n %% 7, 'answered 500'
  FROM owners WHERE n %% 100 = 31;
INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
SELECT id, 'webhook', 'hook' || n, 4, 0, 0 FROM owners WHERE n %% 100 = 31;
INSERT INTO push_webhooklog (webhook_id, ts, topic, first_seq, last_seq, records, message, attempt, state, status, ms, error)
SELECT w.id, %(now)s, 'topic', each, each, 1, 'msg', 1, CASE each %% 5 WHEN 0 THEN 'dead' ELSE 'delivered' END, 200, 5, ''
  FROM push_webhook w JOIN owners f ON w.name = 'hook' || f.n, generate_series(1, 200) each;
INSERT INTO topics_watchsession (wid, key_id, options, spots, stream, open, seen_ts, created_ts)
SELECT 'wid' || n, 'key' || n %% 50, '{}', json_build_object(name, json_build_array(id, 5)), 1, n %% 2 = 0, %(now)s, 0
  FROM owners WHERE n %% 100 = 30;
INSERT INTO console_sample (kind, object_id, ts, head_seq, reads, forwarded, count, bytes, lag, oldest_ms, errors)
SELECT 'topic', id, %(minute)s - back * 60000, 5, 0, 0, 5, 50, 0, 0, 0 FROM filled, generate_series(1, 180, 3) back WHERE n %% 20 = 6;
INSERT INTO console_sample (kind, object_id, ts, head_seq, reads, forwarded, count, bytes, lag, oldest_ms, errors)
SELECT 'router', r.id, %(minute)s - back * 60000, 5, 0, 0, 0, 0, 1, 0, 0
  FROM routers_router r JOIN led l ON l.name = r.name, generate_series(1, 180, 3) back;
INSERT INTO console_sample (kind, object_id, ts, head_seq, reads, forwarded, count, bytes, lag, oldest_ms, errors)
SELECT 'all', 0, %(minute)s - back * 60000, 5, 0, 0, 5, 50, 0, 0, 0 FROM generate_series(1, 180) back ON CONFLICT DO NOTHING;
INSERT INTO console_signal (kind, object, level, text, advice, url, act, because, since_ts, opened_ts, times, reason, silenced_by)
SELECT 'cursor stuck', 'cursor of ' || name, 'warn', 'It stands.', '', '', '', '[]', %(now)s, %(now)s, 1, '', '' FROM filled WHERE n = 1;
INSERT INTO topics_auditentry (ts, actor, actor_name, origin, action, kind, name)
SELECT %(now)s + n, 'key', 'key', '::1', 'create', 'topic', name FROM filled;
INSERT INTO pipeline_rollup (topic_id, minute_ts, node, tag_prefix, records, bytes, first_seq, last_seq)
SELECT id, %(minute)s - back * 60000, '', '', 5, 50, 1, 5 FROM filled, generate_series(1, 10) back WHERE n %% 20 = 6;
INSERT INTO pipeline_delay (topic_id, router, minute_ts, bucket, records)
SELECT dest_id, name, %(minute)s - back * 60000, 5, 50 FROM led, generate_series(1, 10) back;
INSERT INTO pipeline_run (job, options, state, started_ts, finished_ts, read, written, summary)
SELECT 'rollup', '{}', 'done', %(now)s - n, %(now)s, 5, 5, '' FROM owners WHERE n %% 20 = 7;
INSERT INTO topics_apikey (name, secret_sha256, read, write, delete_scope, created_ts, prefixes, admin)
SELECT 'key' || n, sha256(n::text::bytea), true, false, false, 0, 't', false FROM owners WHERE n %% 500 = 8;
DROP TABLE filled, led, owners
