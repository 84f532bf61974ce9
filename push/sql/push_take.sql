-- Take a subscriber's next batch under a lease, if one is due. `verdict`:
--     send   it is to be delivered now. From here on the batch is what it is, until push_settle acknowledges it.
--     wait   not before wait_ms are over; or, where full_seq is given, once the queue's head is there
--     idle   there is nothing to deliver, or nobody to deliver to
--
-- Who else may be here: any number of workers. The subscriber's row is the lock; who does not get it leaves (SKIP LOCKED), since
-- whoever has it does the same. A lease is a number that only grows, and a time by PostgreSQL's clock: while it lasts nobody else
-- takes the queue, and once somebody has, the older number changes nothing any more. Its holder counts that time from before it
-- asked, by a clock of its own, and sends nothing when it is over (dispatcher.py).
CREATE OR REPLACE FUNCTION push_take(
    p_id bigint, p_lease_ms bigint, p_bytes bigint,
    OUT verdict text, OUT wait_ms bigint, OUT full_seq bigint, OUT lease bigint, OUT batch_id text, OUT attempt integer,
    OUT age_ms bigint, OUT callback text, OUT uuid text, OUT dropped bigint, OUT events integer, OUT body text
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
BEGIN
    verdict := 'idle';
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
    IF after IS NULL THEN  -- somebody deleted the queue
        RETURN;
    END IF;

    LOOP
        fresh := sub.batch_last_seq IS NULL OR sub.batch_first_seq <> after + 1;  -- redelivered, or partly dropped: another batch
        IF fresh THEN
            oldest := topic_next_ts(queue, after);
            IF oldest IS NULL THEN
                RETURN;
            END IF;
            IF head.head_seq - after < sub.max_events AND oldest > now_ms - sub.timeout_ms THEN
                verdict := 'wait';
                wait_ms := oldest + sub.timeout_ms - now_ms;
                full_seq := after + sub.max_events;
                RETURN;
            END IF;
            upto := least(after + sub.max_events, head.head_seq);
        ELSE
            oldest := sub.batch_ts;
            upto := sub.batch_last_seq;
        END IF;
        -- As many as fit into p_bytes, at least one. A batch that was made before fitted then.
        SELECT count(*), max(seq), '[' || string_agg(data::text, ',' ORDER BY seq) || ']'
          INTO events, upto, body
          FROM (SELECT seq, data, size, sum(size) OVER (ORDER BY seq) AS run FROM push_event(queue, after + 1, upto)) event
         WHERE run <= p_bytes OR run = size OR NOT fresh;
        EXIT WHEN events > 0;
        -- Deleted, or no events: nothing is sent of these seqs. The cursor moves with the next acknowledgement.
        after := CASE WHEN fresh THEN least(after + sub.max_events, head.head_seq) ELSE sub.batch_last_seq END;
        UPDATE topics_cursor SET seq = after, updated_ts = now_ms
         WHERE topic_id = queue AND name = substr(sub.queue, length('bus.queue:') + 1) AND kind = 'subscription';
        sub.batch_last_seq := NULL;
        IF after >= head.head_seq THEN
            UPDATE push_subscriber SET batch_id = NULL, batch_first_seq = NULL, batch_last_seq = NULL, batch_attempts = 0 WHERE client_id = p_id;
            RETURN;
        END IF;
    END LOOP;

    verdict := 'send';
    PERFORM set_config('synchronous_commit', 'off', true);  -- push_settle says why
    batch_id := CASE WHEN fresh THEN gen_random_uuid()::text ELSE sub.batch_id END;
    attempt := CASE WHEN fresh THEN 1 ELSE sub.batch_attempts + 1 END;
    lease := sub.lease + 1;
    age_ms := now_ms - oldest;
    callback := sub.callback;
    uuid := sub.uuid;
    dropped := sub.dropped;
    UPDATE push_subscriber s
       SET lease = push_take.lease, leased_until_ts = now_ms + p_lease_ms, batch_id = push_take.batch_id,
           batch_first_seq = CASE WHEN fresh THEN after + 1 ELSE batch_first_seq END, batch_last_seq = upto,
           batch_attempts = push_take.attempt, batch_ts = oldest
     WHERE client_id = p_id;
END
$$;
