-- Gives jobs back: other nodes can claim them after p_delays[n] ms. p_errors[n] becomes the last error of the jobs (NULL: no
-- change). Version 0.3.0 sends no errors. The other arrays are those of queue_held, and the answer is that of queue_ack.
CREATE OR REPLACE FUNCTION queue_nack(
    p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint,
    p_ns integer[], p_nodes text[], p_seqs bigint[], p_ids uuid[], p_delays bigint[], p_errors text[] DEFAULT NULL
) RETURNS TABLE (n integer, seq bigint, deadline bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    locked record;
    queue  queues_queue;
BEGIN
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, p_now, p_expired_ts);
    IF locked.head IS NULL THEN
        RETURN;
    END IF;
    queue := locked.queue;
    FOR n, seq, deadline IN SELECT * FROM queue_held(p_topic_id, p_durable, p_ns, p_nodes, p_seqs, p_ids) LOOP
        UPDATE queues_lease SET node = NULL, id = NULL, deadline = locked.now + p_delays[n], error = coalesce(p_errors[n], error)
         WHERE topic_id = p_topic_id AND durable = p_durable AND seq = queue_nack.seq;
        IF deadline > locked.now THEN
            queue.in_flight := queue.in_flight - 1;
        END IF;
        IF p_delays[n] > 0 THEN
            queue.delayed := queue.delayed + 1;
        END IF;
        RETURN NEXT;
    END LOOP;
    n := 0;
    deadline := queue.in_flight;
    seq := queue_save(queue, p_expired_ts);
    RETURN NEXT;
END
$$;
