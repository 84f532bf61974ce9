CREATE OR REPLACE FUNCTION topics.lag(topic text, name text DEFAULT NULL) RETURNS TABLE (lag bigint, oldest_ms bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    now_ms  constant bigint := extract(epoch FROM clock_timestamp()) * 1000;
    known   topics_topic;
    expired bigint;
    done    bigint;
BEGIN
    PERFORM door_check(lag.topic, 'read');
    known := door_topic(lag.topic);
    expired := CASE WHEN known.ttl_ms > 0 THEN now_ms - known.ttl_ms END;
    IF lag.name IS NULL THEN
        IF known.type <> 'queue' THEN
            PERFORM door_queue(lag.topic);  -- says that the topic is a log
        END IF;
        RETURN QUERY SELECT jobs.ready, jobs.oldest_ready_ms
          FROM topics_topichead head CROSS JOIN LATERAL queue_counts(head.topic_id, head.version, NULL, expired) jobs
         WHERE head.topic_id = known.id;
    ELSE
        done := topics.read_cursor(lag.topic, lag.name);
        RETURN QUERY SELECT head.head_seq - done, greatest(now_ms, since) - since
          FROM topics_topichead head CROSS JOIN LATERAL topic_stat(head, expired) stat
         CROSS JOIN LATERAL topic_next_ts(known.id, greatest(done, stat.earliest_seq - 1)) since
         WHERE head.topic_id = known.id;
    END IF;
END
$$;
COMMENT ON FUNCTION topics.lag IS
'Returns how far a consumer is behind: lag is the head of the topic minus its named cursor, and oldest_ms the age of the first record after it. Without a name, for a queue: the number of ready jobs, and for how long one has been ready.';
