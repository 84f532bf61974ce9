-- Gives leases that have not ended another p_lease_ms[n] from now. The other arrays are those of queue_held. Returns a row for each
-- lease: the request n, the seq and the new deadline. If p_version is not the current version, it returns no row, else a row with
-- n = 0.
CREATE OR REPLACE FUNCTION queue_extend(
    p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint,
    p_ns integer[], p_nodes text[], p_seqs bigint[], p_ids uuid[], p_lease_ms bigint[]
) RETURNS TABLE (n integer, seq bigint, deadline bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    locked record;
BEGIN
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, p_now, p_expired_ts);
    IF locked.head IS NULL THEN
        RETURN;
    END IF;
    FOR n, seq, deadline IN SELECT * FROM queue_held(p_topic_id, p_durable, p_ns, p_nodes, p_seqs, p_ids) LOOP
        CONTINUE WHEN deadline <= locked.now;
        UPDATE queues_lease SET deadline = locked.now + p_lease_ms[n]
         WHERE topic_id = p_topic_id AND durable = p_durable AND seq = queue_extend.seq
        RETURNING queues_lease.deadline INTO deadline;
        RETURN NEXT;
    END LOOP;
    n := 0;
    seq := queue_save(locked.queue, p_expired_ts);
    deadline := 0;
    RETURN NEXT;
END
$$;
