-- Returns which of the asked leases exist: the request p_ns[i] is from the node p_nodes[i] and names the seq p_seqs[i], and the id of
-- its lease or NULL. If two requests name a lease, the first one has it. The caller holds the lock of the queue.
CREATE OR REPLACE FUNCTION queue_held(
    p_topic_id bigint, p_durable boolean, p_ns integer[], p_nodes text[], p_seqs bigint[], p_ids uuid[]
) RETURNS TABLE (n integer, seq bigint, deadline bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT DISTINCT ON (lease.seq) asked.n, lease.seq, lease.deadline
      FROM unnest(p_ns, p_nodes, p_seqs, p_ids) AS asked (n, node, seq, id)
     CROSS JOIN LATERAL (SELECT * FROM queues_lease
                          WHERE topic_id = p_topic_id AND durable = p_durable AND seq = asked.seq OFFSET 0) lease
     WHERE lease.node = asked.node AND (asked.id IS NULL OR lease.id = asked.id)
     ORDER BY lease.seq, asked.n;
END
$$;
