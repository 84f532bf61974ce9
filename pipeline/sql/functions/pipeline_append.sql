-- Appends a chunk of a batch of Spark's, and notes the batch, in the caller's transaction. Returns how many records of the batch the
-- topic now holds. Returns NULL and changes nothing if it holds more or fewer than p_expected: another attempt was first. Returns -1 if
-- it holds a later batch of the writer and partition.
--
-- It runs with the rights of its owner, so that a login of the role topics_writer can append and do nothing else. So it asks for the
-- rights of the login first (door_check). The head's lock comes before all else, as in every append: a late copy of a task waits for the
-- first copy, and then sees its entry. A topic that does not exist is created. topic_append writes the records, as for `topics.append`.
-- The commit waits for the disk whatever the topic's durability is, because Spark never sends a committed batch again.
CREATE OR REPLACE FUNCTION pipeline_append(
    p_topic text, p_writer text, p_partition integer, p_batch bigint, p_expected bigint,
    p_data json, p_tags json, p_nodes json, p_metas json
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
DECLARE
    now_ms  bigint := extract(epoch FROM clock_timestamp()) * 1000;
    locked  record;
    topic   topics_topic;
    known   pipeline_written;
    before  bigint;
    done    record;
    more    bigint := json_array_length(p_data);
BEGIN
    PERFORM door_check(p_topic, 'write');
    PERFORM set_config('synchronous_commit', 'on', true);
    LOOP
        SELECT * INTO locked FROM topic_lock_named(p_topic);
        EXIT WHEN (locked.head).topic_id IS NOT NULL;
        PERFORM pipeline_create(p_topic, now_ms);
    END LOOP;
    topic := locked.topic;
    SELECT * INTO known FROM pipeline_written WHERE topic_id = topic.id AND writer = p_writer AND partition = p_partition;
    IF known.batch > p_batch THEN
        RETURN -1;
    END IF;
    before := CASE WHEN known.batch = p_batch THEN known.records ELSE 0 END;
    IF before <> p_expected THEN
        RETURN NULL;
    END IF;
    SELECT * INTO done FROM topic_append(topic, locked.head, now_ms, p_data, p_tags, p_nodes, p_metas);
    IF done.verdict = 'deep' THEN
        RAISE EXCEPTION 'record % of this chunk is nested too deeply: expected at most 128 levels of arrays and objects', done.place + 1
              USING ERRCODE = 'data_exception', HINT = 'invalid_request';
    ELSIF done.verdict = 'twice' THEN
        RAISE EXCEPTION 'records % and % of this chunk have the same tag, and the queue has unique_tags', done.other + 1, done.place + 1
              USING ERRCODE = 'data_exception', HINT = 'invalid_request';
    ELSIF done.verdict = 'sealed' THEN
        RAISE EXCEPTION '% is sealed: it takes no records and no deletes until a PUT with sealed false', quote_literal(p_topic)
              USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'topic_sealed';
    ELSIF done.verdict = 'full' AND done.records + more > topic.cap_records AND topic.cap_records > 0 THEN
        RAISE EXCEPTION 'topic % has no room: % of at most % records', quote_literal(p_topic), done.records, topic.cap_records
              USING ERRCODE = 'program_limit_exceeded', HINT = 'topic_full';
    ELSIF done.verdict = 'full' THEN
        RAISE EXCEPTION 'topic % has no room: % of at most % bytes', quote_literal(p_topic), done.bytes, topic.cap_bytes
              USING ERRCODE = 'program_limit_exceeded', HINT = 'topic_full';
    END IF;
    INSERT INTO pipeline_written AS w (topic_id, writer, partition, batch, records, ts)
    VALUES (topic.id, p_writer, p_partition, p_batch, before + more, now_ms)
    ON CONFLICT (topic_id, writer, partition) DO UPDATE
       SET batch = excluded.batch, ts = excluded.ts, records = excluded.records;
    RETURN before + more;
END
$$;
