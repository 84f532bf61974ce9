-- Ends the leases of these jobs, deletes the jobs, and counts them as moved to the dead letter topic. queue_spent returned the jobs in
-- this transaction. Returns the number of ready jobs.
CREATE OR REPLACE FUNCTION queue_drop(
    p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint, p_seqs bigint[]
) RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    locked record;
    queue  queues_queue;
    ended  bigint;
BEGIN
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, p_now, p_expired_ts);
    IF locked.head IS NULL THEN
        PERFORM topic_outdated();
    END IF;
    queue := locked.queue;
    SELECT count(*) INTO ended FROM queue_release(p_topic_id, p_durable, p_seqs) deadline WHERE deadline > locked.now;
    queue.in_flight := queue.in_flight - ended;
    PERFORM topic_delete_seqs(p_topic_id, p_version, p_seqs, p_expired_ts);
    INSERT INTO queues_moved AS moved (topic_id, jobs) VALUES (p_topic_id, cardinality(p_seqs))
    ON CONFLICT (topic_id) DO UPDATE SET jobs = moved.jobs + excluded.jobs;
    RETURN queue_save(queue, p_expired_ts);
END
$$;
