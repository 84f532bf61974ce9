-- Deletes the leases of jobs that the topic no longer shows, after a client deleted records. Reads all leases of the queue. If
-- p_version is not the current version, it does nothing: then the next claim or the end of the leases removes them.
CREATE OR REPLACE FUNCTION queue_forget(
    p_topic_id bigint, p_version bigint, p_durable boolean, p_expired_ts bigint
) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    locked record;
    queue  queues_queue;
    live   bigint[];
    gone   record;
BEGIN
    -- Locked, so that no claim writes a later time until queue_lock gets this one: it would look as if the clock had been set back.
    SELECT * INTO queue FROM queues_queue WHERE topic_id = p_topic_id FOR UPDATE;
    IF NOT FOUND THEN  -- nobody claimed a job yet
        RETURN;
    END IF;
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, queue.swept_ts, p_expired_ts);
    IF locked.head IS NULL THEN
        RETURN;
    END IF;
    queue := locked.queue;
    live := ARRAY(SELECT seq FROM topic_shown(
        p_topic_id, ARRAY(SELECT seq FROM queues_lease WHERE topic_id = p_topic_id AND durable = p_durable)));
    WITH ended AS (
        DELETE FROM queues_lease WHERE topic_id = p_topic_id AND durable = p_durable AND seq <> ALL (live) RETURNING node, deadline)
    SELECT count(node) AS held, count(*) - count(node) AS back INTO gone FROM ended WHERE deadline > locked.now;
    queue.in_flight := queue.in_flight - gone.held;
    queue.delayed := queue.delayed - gone.back;
    PERFORM queue_save(queue, p_expired_ts);
END
$$;
