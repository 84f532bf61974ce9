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
    held   bigint;
    done   record;
    beyond record;
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
    held := CASE WHEN limits.max_total_bytes > 0 THEN (SELECT bytes FROM topic_totals()) END;
    IF held + octet_length(lists.data::text) + octet_length(lists.metas::text) > limits.max_total_bytes THEN
        PERFORM door_refuse('throttled', format('the topics hold %s of at most %s bytes (TOPICS_MAX_TOTAL_BYTES): delete records', held,
                                                limits.max_total_bytes),
                            json_build_object('limit', 'total_bytes', 'max', limits.max_total_bytes));
    END IF;
    LOOP
        SELECT * INTO locked FROM topic_lock_named(append.topic);
        EXIT WHEN (locked.head).topic_id IS NOT NULL;
        PERFORM door_name(append.topic, 'topic');
        IF limits.max_topics > 0 AND (SELECT topics FROM topic_totals()) >= limits.max_topics THEN
            PERFORM door_refuse('throttled', format('the cap of %s is reached (topics): try again later', limits.max_topics),
                                json_build_object('limit', 'topics', 'max', limits.max_topics));
        END IF;
        PERFORM topic_create(append.topic, now_ms);
    END LOOP;
    known := locked.topic;
    IF known.durability = 'fsync' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF known.numbers = 'double' THEN
        SELECT * INTO beyond FROM records_overflow(lists.data, lists.metas);
        IF beyond.field IS NOT NULL THEN
            PERFORM door_refuse('invalid_request',
                                format('%s is beyond the range of a double, and the topic has numbers "double": send the number as a string',
                                       beyond.field),
                                json_build_object('field', beyond.field, 'index', beyond.index));
        END IF;
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
