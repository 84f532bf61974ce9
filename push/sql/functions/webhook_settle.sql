-- Stores the outcomes of calls of a webhook, in one transaction: the positions, the records that wait, the log and the health of the
-- endpoint. Only the holder of the lease can do so. Returns false if another process has the webhook, and then changes nothing.
--
-- `p_settled` is the number of earlier calls by any holder. A call that is repeated, because its answer was lost, changes nothing, and
-- returns NULL.
-- Calls do not wait for the disk: after a crash of PostgreSQL, records are sent again, as they can be in any case.
--
-- `p_done`: records that leave push_webhookwaiting, and those that were given up (`failed`). `p_waiting`: records that wait from now
-- on, for `delay_ms`, or behind another of their line (NULL). `p_positions`: how far all records of a topic are done or wait. `p_log`: rows of the log.
CREATE OR REPLACE FUNCTION webhook_settle(
    p_id bigint, p_lease bigint, p_settled bigint, p_done json, p_waiting json, p_positions json, p_log json,
    p_failures integer, p_rest_ms bigint, p_error text, p_pause text, p_records bigint, p_dead bigint
) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    hook   push_webhook;
BEGIN
    SELECT * INTO hook FROM push_webhook WHERE id = p_id AND lease = p_lease AND leased_until_ts > 0 FOR NO KEY UPDATE;
    IF NOT FOUND OR hook.settled NOT IN (p_settled, p_settled + 1) THEN
        RETURN false;
    END IF;
    IF hook.settled > p_settled THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);

    DELETE FROM push_webhookwaiting w USING json_to_recordset(p_done) AS done (topic_id bigint, seq bigint)
     WHERE w.webhook_id = p_id AND w.topic_id = done.topic_id AND w.seq = done.seq;
    INSERT INTO push_webhookwaiting AS kept (webhook_id, topic_id, seq, topic, line, attempts, first_ts, next_ts, set_ts, status,
                                             error)
    SELECT p_id, topic_id, seq, topic, line, attempts, CASE WHEN attempts > 0 AND first_ts = 0 THEN now_ms ELSE first_ts END,
           now_ms + delay_ms, now_ms, status, error
      FROM json_to_recordset(p_waiting)
           AS new (topic_id bigint, seq bigint, topic text, line text, attempts integer, first_ts bigint, delay_ms bigint,
                   status integer, error text)
    ON CONFLICT (webhook_id, topic_id, seq) DO UPDATE
       SET attempts = excluded.attempts, first_ts = excluded.first_ts, next_ts = excluded.next_ts, set_ts = excluded.set_ts,
           status = excluded.status, error = excluded.error;
    DELETE FROM push_webhookfailed f USING json_to_recordset(p_done) AS done (topic_id bigint, seq bigint)
     WHERE f.webhook_id = p_id AND f.topic_id = done.topic_id AND f.seq = done.seq;
    INSERT INTO push_webhookfailed (webhook_id, topic_id, seq, ts)
    SELECT p_id, topic_id, seq, now_ms FROM json_to_recordset(p_done) AS done (topic_id bigint, seq bigint, failed boolean)
     WHERE failed;
    -- The first record of each line waits for its time, and the others behind it. This comes after both changes above: a record that
    -- was put behind another may be the first by now.
    UPDATE push_webhookwaiting w SET next_ts = now_ms, set_ts = now_ms
      FROM (SELECT topic_id, line FROM json_to_recordset(p_done) AS done (topic_id bigint, line text) WHERE line IS NOT NULL
             UNION
            SELECT topic_id, line FROM json_to_recordset(p_waiting) AS new (topic_id bigint, line text) WHERE line IS NOT NULL) lines
     CROSS JOIN LATERAL (
           SELECT seq FROM push_webhookwaiting other
            WHERE other.webhook_id = p_id AND other.topic_id = lines.topic_id AND other.line = lines.line ORDER BY seq LIMIT 1) first
     WHERE w.webhook_id = p_id AND w.topic_id = lines.topic_id AND w.seq = first.seq AND w.next_ts IS NULL;

    UPDATE topics_cursor c SET seq = greatest(c.seq, p.seq), forwarded_total = c.forwarded_total + p.records, updated_ts = now_ms
      FROM json_to_recordset(p_positions) AS p (topic_id bigint, seq bigint, records bigint)
     WHERE c.topic_id = p.topic_id AND c.name = hook.name AND c.kind = 'webhook';

    INSERT INTO push_webhooklog (webhook_id, ts, topic, first_seq, last_seq, records, message, attempt, state, status, ms, error, answer,
                                 next_ts, seqs)
    SELECT p_id, now_ms, topic, first_seq, last_seq, records, message, attempt, state, status, ms, error, answer,
           now_ms + delay_ms, seqs
      FROM json_to_recordset(p_log)
           AS new (topic text, first_seq bigint, last_seq bigint, records integer, message text, attempt integer, state text,
                   status integer, ms integer, error text, answer text, delay_ms bigint, seqs bigint[]);

    UPDATE push_webhook w
       SET settled = p_settled + 1, failures = p_failures, retry_ts = CASE WHEN p_rest_ms > 0 THEN now_ms + p_rest_ms ELSE 0 END,
           last_error = p_error, last_success_ts = CASE WHEN p_records > 0 THEN now_ms ELSE last_success_ts END,
           paused = paused OR p_pause IS NOT NULL, pause_reason = coalesce(p_pause, pause_reason),
           delivered_total = delivered_total + p_records, dead_total = dead_total + p_dead,
           calls_total = calls_total + calls.all, failed_total = failed_total + calls.failed, ms_total = ms_total + calls.ms
      FROM (SELECT count(*) AS all, count(*) FILTER (WHERE state <> 'delivered') AS failed, coalesce(sum(ms), 0) AS ms
              FROM json_to_recordset(p_log) AS new (message text, state text, ms integer) WHERE message <> '') calls
     WHERE w.id = p_id;
    RETURN true;
END
$$;
