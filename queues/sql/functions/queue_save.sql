-- Writes the row of a queue that queue_lock has locked. Returns the number of ready jobs: the live records that no lease keeps back.
CREATE OR REPLACE FUNCTION queue_save(queue queues_queue, p_expired_ts bigint) RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    UPDATE queues_queue
       SET next_seq = queue.next_seq, floor_seq = queue.floor_seq, in_flight = queue.in_flight, delayed = queue.delayed,
           low_ts = queue.low_ts, swept_ts = queue.swept_ts, era = topic_era(queue.swept_ts)
     WHERE topic_id = queue.topic_id AND durable = queue.durable AND era = queue.era;
    RETURN (SELECT stat.records - queue.in_flight - queue.delayed
              FROM topics_topichead head CROSS JOIN LATERAL topic_stat(head, p_expired_ts) stat
             WHERE head.topic_id = queue.topic_id
             LIMIT 1);
END
$$;
