CREATE OR REPLACE FUNCTION topics.claim(topic text, node text, "max" integer DEFAULT 1, lease_ms bigint DEFAULT NULL)
RETURNS TABLE (seq bigint, lease_id uuid, deadline bigint, ts bigint, tag text, deliveries integer, meta json, data json)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    now_ms  constant bigint := extract(epoch FROM clock_timestamp()) * 1000;
    limits  door_limits;
    known   topics_topic;
    version bigint;
    expired bigint;
    row_n   integer;
    job     text;
    shown   record;
    spent   bigint[];
BEGIN
    PERFORM door_check(claim.topic, 'write');
    PERFORM door_check(claim.topic, 'read');
    IF NOT has_function_privilege(session_user, 'topics.read(text, bigint, integer, text)', 'EXECUTE') THEN
        PERFORM door_refuse('forbidden', format('the login %L lacks the scope %L: grant it the role topics_reader', session_user, 'read'),
                            '{"scope":"read"}');
    END IF;
    SELECT * INTO limits FROM door_limits;
    IF coalesce(claim."max" < 1, true) OR claim.lease_ms NOT BETWEEN 100 AND 86400000 THEN
        -- As over HTTP, the caller learns first that the topic is a log.
        IF EXISTS (SELECT FROM topics_topic WHERE name = claim.topic AND type <> 'queue') THEN
            PERFORM door_queue(claim.topic);
        END IF;
        PERFORM door_number('max', claim."max", 1);
        PERFORM door_number('lease_ms', claim.lease_ms, 100, 86400000, true);
    END IF;
    PERFORM door_worker(claim.node, limits);
    PERFORM door_recover();
    LOOP
        known := door_queue(claim.topic);
        SELECT head.version INTO version FROM topics_topichead head WHERE topic_id = known.id LIMIT 1;
        expired := CASE WHEN known.ttl_ms > 0 THEN now_ms - known.ttl_ms END;
        FOR row_n, seq, job IN
            SELECT * FROM queue_claim(
                known.id, version, known.leases_durable, NULL, expired,
                CASE WHEN known.max_deliveries > 0 AND known.dead_letter IS NOT NULL THEN known.max_deliveries END, ARRAY[claim.node],
                ARRAY[least(claim."max", 1000)], ARRAY[coalesce(claim.lease_ms, known.lease_ms)], false, limits.diff_bytes)
        LOOP
            IF row_n = -1 THEN
                spent := spent || seq;
            ELSIF row_n = 1 THEN
                SELECT * INTO shown FROM json_shield(job);
                lease_id := substr(shown.shielded ->> 'lease_id', length('lease_') + 1);
                deadline := shown.shielded ->> 'deadline';
                ts := shown.shielded ->> '$ts';
                tag := shown.shielded ->> '$tag';
                deliveries := shown.shielded ->> 'deliveries';
                meta := json_unshield(shown.shielded -> 'meta', shown.mark);
                data := json_unshield(shown.shielded -> 'data', shown.mark);
                RETURN NEXT;
            END IF;
        END LOOP;
        EXIT WHEN row_n IS NOT NULL;  -- otherwise the queue was configured or deleted since its lookup
    END LOOP;
    IF spent IS NOT NULL THEN
        PERFORM door_bury(known, version, expired, now_ms, spent);
    END IF;
    IF known.durability = 'fsync' AND known.leases_durable THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;
COMMENT ON FUNCTION topics.claim IS
'Claims up to max jobs of a queue for a worker, and returns them. The login needs both roles. No other worker gets them until their deadline. Commit at once: until then every other claim, ack and nack of the queue waits. If you roll back, nobody has claimed them.';
