-- Returns the jobs of these seqs that queue_claim set aside because they were delivered too often, in order. Locks the queue until
-- the end of the transaction, and keeps deletes by tag or seq out (7003), because the caller locks heads next.
CREATE OR REPLACE FUNCTION queue_spent(
    p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint, p_seqs bigint[]
) RETURNS TABLE (seq bigint, deliveries integer, node text, tag text, meta text, data text)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    locked record;
BEGIN
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, p_now, p_expired_ts);
    IF locked.head IS NULL THEN
        PERFORM topic_outdated();
    END IF;
    PERFORM queue_save(locked.queue, p_expired_ts);
    PERFORM pg_advisory_xact_lock(7003, (p_topic_id % 2147483648)::integer);
    RETURN QUERY
    SELECT lease.seq, lease.deliveries, shown.node, shown.tag, shown.meta, shown.data::text
      FROM topic_shown(p_topic_id, p_seqs) shown
     CROSS JOIN LATERAL (SELECT * FROM queues_lease
                          WHERE topic_id = p_topic_id AND durable = p_durable AND seq = shown.seq OFFSET 0) lease
     WHERE lease.node = '' AND lease.id IS NULL
     ORDER BY lease.seq;
END
$$;
