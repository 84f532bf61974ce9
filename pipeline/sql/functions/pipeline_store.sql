-- Appends a chunk of a batch of Spark's, and notes the batch, in the caller's transaction. Returns how many records of the batch the
-- topic now holds. Returns NULL and changes nothing if it holds more or fewer than p_expected: another attempt was first. Returns -1 if
-- it holds a later batch of the writer and partition. It does not judge the records: pipeline_append has judged them, and a restore keeps
-- records that are not valid any more.
--
-- The head's lock comes before all else, as in every append: a late copy of a task waits for the first copy, and then sees its entry. A
-- topic that does not exist is created. topic_append writes the records, as for `topics.append`. The commit waits for the disk whatever
-- the topic's durability is, because Spark never sends a committed batch again.
CREATE OR REPLACE FUNCTION pipeline_store(
    p_topic text, p_writer text, p_partition integer, p_batch bigint, p_expected bigint,
    p_data json, p_tags json, p_nodes json, p_metas json
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    now_ms  bigint := extract(epoch FROM clock_timestamp()) * 1000;
    limits  door_limits;
    locked  record;
    topic   topics_topic;
    known   pipeline_written;
    before  bigint;
    done    record;
    more    bigint := json_array_length(p_data);
BEGIN
    SELECT * INTO limits FROM door_limits;
    PERFORM door_recover();
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
    PERFORM door_room(p_data, p_metas, limits);
    SELECT * INTO done FROM topic_append(topic, locked.head, now_ms, p_data, p_tags, p_nodes, p_metas);
    IF done.verdict NOT IN ('done', 'kept') THEN
        PERFORM door_refuse_append(topic, done, more, NULL, NULL);
    END IF;
    INSERT INTO pipeline_written AS w (topic_id, writer, partition, batch, records, ts)
    VALUES (topic.id, p_writer, p_partition, p_batch, before + more, now_ms)
    ON CONFLICT (topic_id, writer, partition) DO UPDATE
       SET batch = excluded.batch, ts = excluded.ts, records = excluded.records;
    RETURN before + more;
END
$$;
