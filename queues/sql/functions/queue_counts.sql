-- Returns the figures of a queue at p_now, without a lock and without a write. p_expired_ts: records of the topic with a lower ts
-- are expired (NULL: none). It returns no row if p_version is not the current version.
--
-- The queue's row has the counts up to swept_ts. The function adds what changed since: leases that ended, and leases of records
-- that the topic lost. oldest_ready_ms: for how long a job has been ready (NULL: none is). A job that came back is ready since the end
-- of its lease. Two probes find the time: the first lease that ended, and the first job that nobody claimed.
CREATE OR REPLACE FUNCTION queue_counts(p_topic_id bigint, p_version bigint, p_now bigint, p_expired_ts bigint)
RETURNS TABLE (ready bigint, in_flight bigint, dead_lettered bigint, delayed bigint, oldest_ready_ms bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    queue queues_queue;
    floor bigint;
    live  bigint;
    now   bigint := coalesce(p_now, queue_now());
    ended record;
    lost  record;
    since bigint;  -- the time at which the oldest ready job became ready
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
        delayed := 0;
        since := topic_next_ts(p_topic_id, floor);
        oldest_ready_ms := greatest(now, since) - since;
        RETURN NEXT;
        RETURN;
    END IF;
    now := greatest(now, queue.swept_ts);
    SELECT count(node) AS held, count(*) - count(node) AS back INTO ended FROM queues_lease
     WHERE topic_id + 0 = p_topic_id AND deadline > queue.swept_ts AND deadline <= now;
    SELECT count(node) FILTER (WHERE deadline > now) AS held,
           count(*) FILTER (WHERE deadline > now AND node IS NULL) AS back INTO lost FROM queues_lease
     WHERE topic_id = p_topic_id AND seq > queue.floor_seq AND seq <= floor;
    in_flight := queue.in_flight - ended.held - lost.held;
    delayed := queue.delayed - ended.back - lost.back;
    ready := live - in_flight - delayed;
    IF ready > 0 THEN
        since := least(
            topic_next_ts(p_topic_id, greatest(queue.next_seq, floor)),
            (SELECT deadline FROM queues_lease
              WHERE topic_id + 0 = p_topic_id AND deadline >= queue.low_ts AND deadline <= now AND seq > floor
              ORDER BY deadline LIMIT 1));
        oldest_ready_ms := greatest(now, since) - since;
    END IF;
    RETURN NEXT;
END
$$;
