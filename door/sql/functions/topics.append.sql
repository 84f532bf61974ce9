CREATE OR REPLACE FUNCTION topics.append(
    topic text, records json, node text DEFAULT NULL, idempotency_key text DEFAULT NULL, expected_head bigint DEFAULT NULL
) RETURNS TABLE (first_seq bigint, last_seq bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    now_ms constant bigint := extract(epoch FROM clock_timestamp()) * 1000;
    limits door_limits;
    lists  record;
    locked record;
    known  topics_topic;
    done   record;
BEGIN
    PERFORM door_check(append.topic, 'write');
    IF append.topic LIKE 'bus:%' THEN
        PERFORM door_refuse('invalid_request', format('%L is a topic of the push bus, which takes events alone: send them with topics.emit',
                                                      append.topic));
    END IF;
    SELECT * INTO limits FROM door_limits;
    PERFORM door_number('expected_head', append.expected_head, 0, p_nullable => true);
    SELECT * INTO lists FROM door_records(append.records, append.node, append.idempotency_key, limits);
    PERFORM door_recover();
    PERFORM door_room(lists.data, lists.metas, limits);
    LOOP
        SELECT * INTO locked FROM topic_lock_named(append.topic);
        EXIT WHEN (locked.head).topic_id IS NOT NULL;
        PERFORM door_create(append.topic, now_ms, limits);
    END LOOP;
    known := locked.topic;
    IF known.durability = 'fsync' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF known.numbers = 'double' THEN
        PERFORM door_doubles(lists.data, lists.metas);
    END IF;
    SELECT * INTO done FROM topic_append(
        known, locked.head, now_ms, lists.data, lists.tags, lists.nodes, lists.metas, append.idempotency_key, append.expected_head);
    IF done.verdict NOT IN ('done', 'kept') THEN
        PERFORM door_refuse_append(known, done, json_array_length(lists.data), append.idempotency_key, append.expected_head);
    END IF;
    first_seq := coalesce(done.first_seq, done.head_seq + 1);
    last_seq := coalesce(done.last_seq, done.head_seq);
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION topics.append IS
'Appends records to a topic in your transaction, all or none, and returns their seqs. records: an array of objects with data, and if you want tag, node and meta, as in POST /v0/topics/{topic}. The topic is created if it is absent. From this call to your commit, every other append to the topic waits. If nothing needs the seq at once, emit does not hold them up.';
