-- Deletes the leases of these jobs, and returns their deadlines. The caller holds the lock of the queue.
--
-- Each job takes a probe of the primary key (OFFSET 0), and each delete goes by the place of the row, as in topic_mark. `durable`
-- is compared so that no index serves it: a place is one of either partition.
CREATE OR REPLACE FUNCTION queue_release(p_topic_id bigint, p_durable boolean, p_seqs bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    DELETE FROM queues_lease
     WHERE durable IS NOT DISTINCT FROM p_durable AND ctid = ANY (ARRAY(
           SELECT place FROM unnest(p_seqs) AS asked (seq)
            CROSS JOIN LATERAL (SELECT ctid AS place FROM queues_lease
                                 WHERE topic_id = p_topic_id AND durable = p_durable AND seq = asked.seq OFFSET 0) lease))
    RETURNING deadline;
END
$$;
