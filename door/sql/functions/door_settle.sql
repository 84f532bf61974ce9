-- Ends the leases of jobs that a worker holds, in the transaction of the caller: deletes the jobs, or gives them back if there is a
-- p_delay_ms. Returns the seqs of those that the worker held. Raises the errors of a queue.
CREATE OR REPLACE FUNCTION door_settle(
    p_topic text, p_node text, p_seqs bigint[], p_lease_ids uuid[], p_delay_ms bigint DEFAULT NULL, p_error text DEFAULT NULL
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    now_ms  constant bigint := extract(epoch FROM clock_timestamp()) * 1000;
    count   constant int := cardinality(p_seqs);
    ids     constant uuid[] := coalesce(p_lease_ids, array_fill(NULL::uuid, ARRAY[count]));
    known   topics_topic;
    version bigint;
    expired bigint;
    done    bigint[];
    told    bigint;
BEGIN
    PERFORM door_recover();
    LOOP
        known := door_queue(p_topic);
        SELECT head.version INTO version FROM topics_topichead head WHERE topic_id = known.id LIMIT 1;
        expired := CASE WHEN known.ttl_ms > 0 THEN now_ms - known.ttl_ms END;
        IF p_delay_ms IS NULL THEN
            SELECT array_agg(held.seq) FILTER (WHERE held.n = 1), count(*) INTO done, told
              FROM queue_ack(known.id, version, known.leases_durable, NULL, expired, array_fill(1, ARRAY[count]),
                             array_fill(p_node, ARRAY[count]), p_seqs, ids) held (n, seq, deadline);
        ELSE
            SELECT array_agg(held.seq) FILTER (WHERE held.n = 1), count(*) INTO done, told
              FROM queue_nack(known.id, version, known.leases_durable, NULL, expired, array_fill(1, ARRAY[count]),
                              array_fill(p_node, ARRAY[count]), p_seqs, ids, ARRAY[p_delay_ms], ARRAY[nullif(p_error, '')])
                   held (n, seq, deadline);
        END IF;
        EXIT WHEN told > 0;  -- otherwise the queue was configured or deleted since its lookup
    END LOOP;
    -- An ack deletes records. A nack is durable if the leases are.
    IF known.durability = 'fsync' AND (p_delay_ms IS NULL OR known.leases_durable) THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN done;
END
$$;
