-- Locks the row of a queue, creates it if it is absent, and brings its counts up to date: leases that ended until p_now (NULL:
-- PostgreSQL's time) are no longer in flight, and leases of records that the topic lost are deleted. Returns the row, which the
-- caller writes with queue_save, the head as it is now, and the time. If p_version is not the current version, `head` is NULL and
-- nothing changed.
--
-- Each lease is counted out once, when it ends. So the cost does not grow with the number of jobs in flight.
CREATE OR REPLACE FUNCTION queue_lock(
    p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint,
    OUT queue queues_queue, OUT head topics_topichead, OUT now bigint
)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    found_queue queues_queue;
    found_head  topics_topichead;
    floor  bigint;
    gone   record;
    moment bigint;
BEGIN
    SELECT * INTO found_queue FROM queues_queue WHERE topic_id = p_topic_id FOR UPDATE;
    IF NOT FOUND THEN
        -- Of two calls that find no row, one waits here and then finds the row of the other. Holders of a queue's row never wait
        -- for this lock.
        PERFORM pg_advisory_xact_lock(7400, (p_topic_id % 2147483648)::integer);
        SELECT * INTO found_queue FROM queues_queue WHERE topic_id = p_topic_id FOR UPDATE;
    END IF;
    SELECT * INTO found_head FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version;
    IF found_head.topic_id IS NULL THEN
        RETURN;
    END IF;
    -- After the wait for the lock: a lease that began before the wait could have ended by now. And the holder of the lock may have
    -- written a later time, as if the clock had been set back since.
    moment := coalesce(p_now, queue_now());
    floor := found_head.floor_seq;
    IF p_expired_ts IS NOT NULL THEN
        floor := greatest(floor, topic_seq_at(p_topic_id, floor, found_head.head_seq, p_expired_ts) - 1);
    END IF;
    IF found_queue.topic_id IS NULL THEN
        INSERT INTO queues_queue VALUES (p_topic_id, p_durable, floor, floor, 0, 0, moment, moment, 0) RETURNING * INTO found_queue;
    ELSIF found_queue.durable <> p_durable THEN  -- the config changed: the rows move to the other partitions
        UPDATE queues_lease SET durable = p_durable WHERE topic_id = p_topic_id;
        UPDATE queues_queue SET durable = p_durable WHERE topic_id = p_topic_id RETURNING * INTO found_queue;
    END IF;
    IF moment < found_queue.swept_ts - 10000 THEN  -- the clock was set back: count again
        -- Otherwise a clock that was an hour ahead for a second would keep a job back for an hour. A lease of the time to come starts
        -- again. A job that no node holds waits for what was left of its delay at the last call.
        UPDATE queues_lease
           SET deadline = moment + CASE WHEN id IS NULL THEN greatest(deadline - found_queue.swept_ts, 0)
                                        ELSE deadline - greatest(claimed_ts, moment) END,
               claimed_ts = least(claimed_ts, moment)
         WHERE topic_id + 0 = p_topic_id AND durable = p_durable AND deadline > moment;
        SELECT count(node) AS held, count(*) - count(node) AS back INTO gone FROM queues_lease
         WHERE topic_id + 0 = p_topic_id AND durable = p_durable AND deadline > moment;
        found_queue.in_flight := gone.held;
        found_queue.delayed := gone.back;
        found_queue.low_ts := 0;
        found_queue.swept_ts := moment;
    ELSIF moment > found_queue.swept_ts THEN
        SELECT count(node) AS held, count(*) - count(node) AS back INTO gone FROM queues_lease
         WHERE topic_id + 0 = p_topic_id AND durable = p_durable AND deadline > found_queue.swept_ts AND deadline <= moment;
        found_queue.in_flight := found_queue.in_flight - gone.held;
        found_queue.delayed := found_queue.delayed - gone.back;
        found_queue.swept_ts := moment;
    END IF;
    IF floor > found_queue.floor_seq THEN
        WITH lost AS (
            DELETE FROM queues_lease
             WHERE topic_id = p_topic_id AND durable = p_durable AND seq > found_queue.floor_seq AND seq <= floor
            RETURNING node, deadline)
        SELECT count(node) AS held, count(*) - count(node) AS back INTO gone FROM lost WHERE deadline > found_queue.swept_ts;
        found_queue.in_flight := found_queue.in_flight - gone.held;
        found_queue.delayed := found_queue.delayed - gone.back;
        found_queue.floor_seq := floor;
        found_queue.next_seq := greatest(found_queue.next_seq, floor);
    END IF;
    queue := found_queue;
    head := found_head;
    now := found_queue.swept_ts;
END
$$;
