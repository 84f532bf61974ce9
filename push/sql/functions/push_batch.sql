-- Takes a subscriber's next batch under a lease, if one is due. `verdict`:
--     send   Deliver the batch now. From here on it does not change until push_settle acknowledges it.
--     wait   Not before wait_ms are over or, with full_seq, until the queue's head reaches full_seq.
--     idle   The queue has no event to deliver, or the subscriber does not exist.
--
-- `records` is the batch: topic, U+001F and data of each, with U+001E between them. Valid JSON contains neither. `unreadable`
-- counts the records that this call put aside. `traces` has the traceparents of the records, each once, with spaces between (NULL:
-- none).
--
-- Any number of workers may call this at once. The subscriber's row is the lock. A worker without the lock leaves (SKIP LOCKED),
-- because the holder does the same work. A lease is a number that only grows, and a time by PostgreSQL's clock. During a lease, no
-- other worker takes the queue. After another worker has taken the queue, the older number changes nothing. The holder counts the
-- time from before the call, by its own clock, and sends nothing after the end of the lease (delivery/deliveries.py).
--
-- An event whose ts is more than 10 s ahead was stamped by a clock that was ahead. It does not wait until that time.
--
-- A record that PostgreSQL cannot read must not stop the records after it. The batch ends before it. If it is the first, the
-- cursor passes it. The delivery log gets a line, and the next batch tells the subscriber (`Topics-Dropped`).
CREATE OR REPLACE FUNCTION push_batch(
    p_id bigint, p_lease_ms bigint, p_bytes bigint,
    OUT verdict text, OUT wait_ms bigint, OUT full_seq bigint, OUT lease bigint, OUT batch_id text, OUT attempt integer,
    OUT age_ms bigint, OUT callback text, OUT uuid text, OUT dropped bigint, OUT unreadable integer, OUT records text,
    OUT traces text
)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    now_ms  bigint := extract(epoch FROM clock_timestamp()) * 1000;
    sub     push_subscriber;
    queue   bigint;
    head    topics_topichead;
    after   bigint;
    oldest  bigint;
    upto    bigint;
    fresh   boolean;
    edge    bigint;  -- a batch ends here at the latest
    reached bigint;
    bad     bigint;  -- the first record that cannot be read
    reason  text;
BEGIN
    verdict := 'idle';
    unreadable := 0;
    SELECT * INTO sub FROM push_subscriber WHERE client_id = p_id FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND OR sub.paused THEN
        RETURN;
    END IF;
    IF greatest(sub.leased_until_ts, sub.retry_ts) > now_ms THEN
        verdict := 'wait';
        wait_ms := greatest(sub.leased_until_ts, sub.retry_ts) - now_ms;
        RETURN;
    END IF;
    SELECT id INTO queue FROM topics_topic WHERE name = sub.queue;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = queue;
    SELECT greatest(c.seq, head.floor_seq) INTO after FROM topics_cursor c
     WHERE c.topic_id = queue AND c.name = substr(sub.queue, length('bus.queue:') + 1) AND c.kind = 'subscription';
    IF after IS NULL THEN  -- an operator deleted the queue
        RETURN;
    END IF;

    edge := head.head_seq;
    LOOP
        fresh := sub.batch_last_seq IS NULL OR sub.batch_first_seq <> after + 1;  -- after a seek or a partial drop this is another batch
        IF fresh THEN
            oldest := topic_next_ts(queue, after);
            IF oldest IS NULL THEN
                RETURN;
            END IF;
            IF head.head_seq - after < sub.max_events AND oldest > now_ms - sub.timeout_ms AND oldest <= now_ms + 10000 THEN
                verdict := 'wait';
                wait_ms := oldest + sub.timeout_ms - now_ms;
                full_seq := after + sub.max_events;
                RETURN;
            END IF;
            upto := least(after + sub.max_events, edge);
        ELSE
            oldest := sub.batch_ts;
            upto := sub.batch_last_seq;
        END IF;
        -- As many records as fit into p_bytes, at least one. A batch that is repeated has fitted before.
        bad := NULL;
        BEGIN
            SELECT max(seq), string_agg(topic || chr(31) || data::text, chr(30) ORDER BY seq),
                   string_agg(DISTINCT traceparent, ' ')
              INTO reached, records, traces
              FROM (SELECT seq, topic, data, size, traceparent, sum(size) OVER (ORDER BY seq) AS run
                      FROM push_queued(queue, after + 1, upto)) queued
             WHERE run <= p_bytes OR run = size OR NOT fresh;
        EXCEPTION WHEN OTHERS THEN
            SELECT u.seq, u.reason INTO bad, reason FROM push_unreadable(queue, after + 1, upto) u;
            IF bad IS NULL THEN
                RAISE;
            END IF;
        END;
        EXIT WHEN records IS NOT NULL;
        IF bad > after + 1 THEN
            edge := bad - 1;
            sub.batch_last_seq := NULL;
            CONTINUE;
        END IF;
        -- These seqs were deleted or put aside, so the batch has no record.
        IF bad IS NOT NULL THEN
            INSERT INTO push_delivery (subscriber_id, ts, batch_id, attempt, status, error, duration_ms, events, bytes,
                                       first_seq, last_seq)
            VALUES (p_id, now_ms, '', 0, NULL, left(format('seq %s of the queue was put aside: %s', bad, reason), 300), 0, 1, 0,
                    bad, bad);
            UPDATE push_subscriber SET dropped = dropped + 1, unreadable_total = unreadable_total + 1 WHERE client_id = p_id;
            unreadable := unreadable + 1;
            sub.dropped := sub.dropped + 1;
            edge := head.head_seq;
            after := bad;
        ELSE
            after := upto;
        END IF;
        UPDATE topics_cursor SET seq = after, updated_ts = now_ms
         WHERE topic_id = queue AND name = substr(sub.queue, length('bus.queue:') + 1) AND kind = 'subscription';
        sub.batch_last_seq := NULL;
        IF after >= head.head_seq THEN
            UPDATE push_subscriber SET batch_id = NULL, batch_first_seq = NULL, batch_last_seq = NULL, batch_attempts = 0 WHERE client_id = p_id;
            RETURN;
        END IF;
    END LOOP;

    verdict := 'send';
    PERFORM set_config('synchronous_commit', 'off', true);  -- push_settle.sql has the reason
    batch_id := CASE WHEN fresh THEN gen_random_uuid()::text ELSE sub.batch_id END;
    attempt := CASE WHEN fresh THEN 1 ELSE least(sub.batch_attempts, 2147483646) + 1 END;  -- stops at the end of integer
    lease := sub.lease + 1;
    age_ms := greatest(now_ms - oldest, 0);
    callback := sub.callback;
    uuid := sub.uuid;
    dropped := sub.dropped;
    UPDATE push_subscriber s
       SET lease = push_batch.lease, leased_until_ts = now_ms + p_lease_ms, batch_id = push_batch.batch_id,
           batch_first_seq = CASE WHEN fresh THEN after + 1 ELSE batch_first_seq END, batch_last_seq = reached,
           batch_attempts = push_batch.attempt, batch_ts = oldest
     WHERE client_id = p_id;
END
$$;
