-- Appends a chunk of a batch of Spark's, and notes the batch, in the caller's transaction. Returns how many records of the batch the
-- topic now holds. Returns NULL and changes nothing if it holds more or fewer than p_expected: another attempt was first. Returns -1 if
-- it holds a later batch of the writer and partition.
--
-- It runs with the rights of its owner, so that a login of the role topics_writer can append and do nothing else. The head's lock comes
-- first, as in every append: a late copy of a task waits for the first copy, and then sees its entry. A topic that does not exist is
-- created. Its config is read under the head's lock, because a change of the config needs that lock, too.
-- The commit waits for the disk whatever the topic's durability is, because Spark never sends a committed batch again.
CREATE OR REPLACE FUNCTION pipeline_append(
    p_topic text, p_writer text, p_partition integer, p_batch bigint, p_expected bigint,
    p_data json, p_tags json, p_nodes json, p_metas json
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    now_ms  bigint := extract(epoch FROM clock_timestamp()) * 1000;
    topic   topics_topic;
    head    topics_topichead;
    known   pipeline_written;
    before  bigint;
    new_id  bigint;
    more    bigint;
    size    bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    LOOP
        SELECT id INTO new_id FROM topics_topic WHERE name = p_topic;
        IF NOT FOUND THEN
            PERFORM pipeline_create(p_topic, now_ms);
            CONTINUE;
        END IF;
        SELECT * INTO head FROM topics_topichead WHERE topic_id = new_id FOR UPDATE;
        EXIT WHEN FOUND;  -- otherwise the topic was deleted since the lookup of its name
    END LOOP;
    SELECT * INTO topic FROM topics_topic WHERE id = head.topic_id;
    SELECT * INTO known FROM pipeline_written WHERE topic_id = topic.id AND writer = p_writer AND partition = p_partition;
    IF known.batch > p_batch THEN
        RETURN -1;
    END IF;
    before := CASE WHEN known.batch = p_batch THEN known.records ELSE 0 END;
    IF before <> p_expected THEN
        RETURN NULL;
    END IF;
    IF topic.sealed THEN
        RAISE EXCEPTION '% is sealed: it takes no records and no deletes until a PUT with sealed false', quote_literal(p_topic)
              USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'topic_sealed';
    END IF;
    IF topic.ttl_ms > 0 AND (topic.cap_records > 0 OR topic.cap_bytes > 0) THEN
        PERFORM topic_expire(topic.id, now_ms - topic.ttl_ms);
        SELECT * INTO head FROM topics_topichead WHERE topic_id = topic.id;
    END IF;
    WITH new AS (
        SELECT place, data, tag, node, nullif(meta::text, 'null')::json AS meta,
               octet_length(data::text) + coalesce(octet_length(nullif(meta::text, 'null')), 0) AS size
          FROM ROWS FROM (json_array_elements(p_data), json_array_elements_text(p_tags), json_array_elements_text(p_nodes),
                          json_array_elements(p_metas)) WITH ORDINALITY AS sent (data, tag, node, meta, place)),
    written AS (
        INSERT INTO topics_record (topic_id, seq, ts, total, size, volatile, node, tag, meta, data)
        SELECT topic.id, head.head_seq + new.place, greatest(head.last_ts, now_ms),
               head.total + sum(new.size) OVER (ORDER BY new.place), new.size, topic.durability IN ('memory', 'ephemeral'),
               new.node, new.tag, new.meta, new.data
          FROM new
        RETURNING topics_record.size)
    SELECT count(*), coalesce(sum(written.size), 0) INTO more, size FROM written;
    IF topic.discard = 'reject' AND topic.cap_records > 0 AND head.count + more > topic.cap_records THEN
        RAISE EXCEPTION 'topic % has no room: % of at most % records', quote_literal(p_topic), head.count, topic.cap_records
              USING ERRCODE = 'program_limit_exceeded', HINT = 'topic_full';
    END IF;
    IF topic.discard = 'reject' AND topic.cap_bytes > 0 AND head.bytes + size > topic.cap_bytes THEN
        RAISE EXCEPTION 'topic % has no room: % of at most % bytes', quote_literal(p_topic), head.bytes, topic.cap_bytes
              USING ERRCODE = 'program_limit_exceeded', HINT = 'topic_full';
    END IF;
    UPDATE topics_topichead h
       SET head_seq = h.head_seq + more, count = h.count + more, bytes = h.bytes + size, total = h.total + size,
           last_ts = greatest(h.last_ts, now_ms), reserved_seq = topic_reserve(h.head_seq + more, h.reserved_seq),
           holes_seq = CASE WHEN topic.durability IN ('memory', 'ephemeral') THEN h.head_seq + more ELSE h.holes_seq END,
           volatile_seq = CASE WHEN topic.durability IN ('memory', 'ephemeral') THEN h.head_seq + more ELSE h.volatile_seq END
     WHERE h.topic_id = topic.id;
    IF topic.discard = 'old' AND (topic.cap_records > 0 OR topic.cap_bytes > 0) THEN
        PERFORM topic_evict(topic.id, topic.cap_records, topic.cap_bytes);
    END IF;
    INSERT INTO pipeline_written AS w (topic_id, writer, partition, batch, records, ts)
    VALUES (topic.id, p_writer, p_partition, p_batch, before + more, now_ms)
    ON CONFLICT (topic_id, writer, partition) DO UPDATE
       SET batch = excluded.batch, ts = excluded.ts, records = excluded.records;
    RETURN before + more;
END
$$;
