-- What became of an attempt. Only who holds the lease may say so: `held` false means that somebody else has taken the queue over
-- since, or an operator moved it, and nothing was changed. An acknowledged batch moves the cursor; one that failed stays what it is
-- and comes again. Either way the lease ends, and the log gets a line.
--
-- Nobody waits for the disk: what a crash of PostgreSQL takes back comes again, as do events themselves. Leases may so be given out
-- twice under one number; no two of them have one batch.
--
-- Version 2: a callback that acknowledges a batch may still count as failing, because it was slow. p_error says so. Such a call takes
-- health points and adds no rest. `p_passed` counts the records of the batch that are no events. A batch without any event was not
-- sent: it moves the cursor, and nothing else.
CREATE OR REPLACE FUNCTION push_settle(
    p_id bigint, p_lease bigint, p_batch_id text, p_acknowledged boolean, p_status integer, p_error text, p_duration_ms double precision,
    p_events integer, p_passed integer, p_bytes integer, p_dropped bigint, p_heal integer, p_damage integer, p_max_backoff_ms bigint,
    OUT held boolean, OUT retry_ms bigint
)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    sub    push_subscriber;
    points integer;
BEGIN
    SELECT * INTO sub FROM push_subscriber 
     WHERE client_id = p_id AND lease = p_lease AND batch_id = p_batch_id AND leased_until_ts > 0 FOR NO KEY UPDATE;
    held := FOUND;
    PERFORM set_config('synchronous_commit', 'off', true);
    retry_ms := 0;
    IF NOT held THEN
        RETURN;
    END IF;
    IF p_events > 0 THEN
        INSERT INTO push_delivery (subscriber_id, ts, batch_id, attempt, status, error, duration_ms, events, bytes)
        VALUES (p_id, now_ms, sub.batch_id, sub.batch_attempts, p_status, CASE WHEN NOT p_acknowledged THEN p_error END, p_duration_ms,
                p_events, p_bytes);
    END IF;
    IF p_acknowledged THEN
        UPDATE topics_cursor c SET seq = greatest(c.seq, sub.batch_last_seq), forwarded_total = c.forwarded_total + p_events, updated_ts = now_ms
          FROM topics_topic t
         WHERE t.name = sub.queue AND c.topic_id = t.id AND c.name = substr(sub.queue, length('bus.queue:') + 1) AND c.kind = 'subscription';
        UPDATE push_subscriber
           SET leased_until_ts = 0, batch_id = NULL, batch_first_seq = NULL, batch_last_seq = NULL, batch_attempts = 0, retry_ts = 0,
               health = CASE WHEN p_events = 0 THEN health
                             ELSE least(greatest(health + CASE WHEN p_error IS NULL THEN p_heal ELSE p_damage END, 0), 100) END,
               last_error = CASE WHEN p_events = 0 THEN last_error ELSE p_error END,
               last_delivery_ts = CASE WHEN p_events = 0 THEN last_delivery_ts ELSE now_ms END,
               sent_total = sent_total + p_events, passed_total = passed_total + p_passed, dropped = dropped - p_dropped
         WHERE client_id = p_id;
    ELSE
        -- As Routemaster: the fewer points are left, the longer the pause; and up to half as much again, so that those which failed
        -- together do not come back together.
        points := greatest(sub.health + p_damage, 0);
        retry_ms := p_max_backoff_ms * power(2, -points) * (1 + random() / 2);
        UPDATE push_subscriber
           SET leased_until_ts = 0, health = points, retry_ts = now_ms + push_settle.retry_ms, last_error = p_error
         WHERE client_id = p_id;
    END IF;
END
$$;
