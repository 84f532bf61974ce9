-- Ends leases of jobs that are done, and deletes the jobs. The arrays are those of queue_held. Returns a row for each job: the request
-- n, and the seq. A row with n = 0 has the number of ready jobs in `seq`, and the number in flight in `deadline`. If p_version is not
-- the current version, it returns no row, or rolls back the transaction.
CREATE OR REPLACE FUNCTION queue_ack(
    p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint,
    p_ns integer[], p_nodes text[], p_seqs bigint[], p_ids uuid[]
) RETURNS TABLE (n integer, seq bigint, deadline bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    locked record;
    queue  queues_queue;
    seqs   bigint[];
    ended  bigint;
BEGIN
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, p_now, p_expired_ts);
    IF locked.head IS NULL THEN
        RETURN;
    END IF;
    queue := locked.queue;
    FOR n, seq, deadline IN SELECT * FROM queue_held(p_topic_id, p_durable, p_ns, p_nodes, p_seqs, p_ids) LOOP
        seqs := seqs || seq;
        IF deadline > locked.now THEN
            queue.in_flight := queue.in_flight - 1;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF seqs IS NOT NULL THEN
        PERFORM FROM queue_release(p_topic_id, p_durable, seqs);
        PERFORM topic_delete_seqs(p_topic_id, p_version, seqs, p_expired_ts);
    END IF;
    n := 0;
    deadline := queue.in_flight;
    seq := queue_save(queue, p_expired_ts);
    RETURN NEXT;
END
$$;
