-- Returns the figures of a queue at p_now, without a lock and without a write. p_expired_ts: records of the topic with a lower ts
-- are expired (NULL: none). It returns no row if p_version is not the current version.
--
-- The queue's row has the counts up to swept_ts. The function adds what changed since: leases that ended, and leases of records
-- that the topic lost.
CREATE OR REPLACE FUNCTION queue_counts(p_topic_id bigint, p_version bigint, p_now bigint, p_expired_ts bigint)
RETURNS TABLE (ready bigint, in_flight bigint, dead_lettered bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    queue queues_queue;
    floor bigint;
    live  bigint;
    now   bigint;
    ended record;
    lost  record;
BEGIN
    SELECT stat.earliest_seq - 1, stat.records INTO floor, live
      FROM topics_topichead head CROSS JOIN LATERAL topic_stat(head, p_expired_ts) stat
     WHERE head.topic_id = p_topic_id AND head.version = p_version;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    dead_lettered := coalesce((SELECT jobs FROM queues_moved WHERE topic_id = p_topic_id), 0);
    SELECT * INTO queue FROM queues_queue WHERE topic_id = p_topic_id LIMIT 1;
    IF NOT FOUND THEN
        ready := live;
        in_flight := 0;
        RETURN NEXT;
        RETURN;
    END IF;
    now := greatest(coalesce(p_now, queue_now()), queue.swept_ts);
    SELECT count(node) AS held, count(*) - count(node) AS back INTO ended FROM queues_lease
     WHERE topic_id = p_topic_id AND deadline > queue.swept_ts AND deadline <= now;
    SELECT count(node) AS held, count(*) - count(node) AS back INTO lost FROM queues_lease
     WHERE topic_id = p_topic_id AND seq > queue.floor_seq AND seq <= floor AND deadline > now;
    in_flight := queue.in_flight - ended.held - lost.held;
    ready := live - in_flight - (queue.delayed - ended.back - lost.back);
    RETURN NEXT;
END
$$;
