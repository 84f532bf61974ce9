-- Stores the outcome of an attempt. Only the holder of the lease can do so. If `held` is false, another worker has taken the
-- queue over, or an operator moved its cursor, and the call changed nothing. An acknowledged batch advances the cursor. A
-- failed batch does not change, and is sent again. In both cases the lease ends, and the delivery log gets a line.
--
-- The call does not wait for the disk. After a crash of PostgreSQL, a batch is sent again, as events can be in any case. A
-- lease number can then be given out twice, but each with another batch.
--
-- A callback that acknowledges a batch can still count as failing, because it was slow (p_error). It costs health points and
-- causes no pause. `p_passed` counts the records of the batch that are no events. A batch without any event was not sent, and
-- only advances the cursor.
CREATE OR REPLACE FUNCTION push_settle(
    p_id bigint, p_lease bigint, p_batch_id text, p_acknowledged boolean, p_status integer, p_error text, p_duration_ms double precision,
    p_events integer, p_passed integer, p_bytes integer, p_dropped bigint, p_heal integer, p_damage integer, p_max_backoff_ms bigint,
    p_min_backoff_ms bigint DEFAULT 1000,
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
        INSERT INTO push_delivery (subscriber_id, ts, batch_id, attempt, status, error, duration_ms, events, bytes,
                                   first_seq, last_seq)
        VALUES (p_id, now_ms, sub.batch_id, sub.batch_attempts, p_status, CASE WHEN NOT p_acknowledged THEN p_error END, p_duration_ms,
                p_events, p_bytes, sub.batch_first_seq, sub.batch_last_seq);
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
        -- Like Routemaster: with fewer points left the pause is longer. Up to 50 % is added at random, so that subscribers that failed
        -- together do not return together.
        points := greatest(sub.health + p_damage, 0);
        -- The first failures of a healthy subscriber would cause almost no pause, so there is a least one.
        retry_ms := greatest(p_max_backoff_ms * power(2, -points), least(p_min_backoff_ms, p_max_backoff_ms)) * (1 + random() / 2);
        UPDATE push_subscriber
           SET leased_until_ts = 0, health = points, retry_ts = now_ms + push_settle.retry_ms, last_error = p_error
         WHERE client_id = p_id;
    END IF;
END
$$;
