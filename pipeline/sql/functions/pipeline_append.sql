-- Appends a chunk of a batch of Spark's, and notes the batch, in the caller's transaction. Returns how many records of the batch the
-- topic now holds. Returns NULL and changes nothing if it holds more or fewer than p_expected: another attempt was first. Returns -1 if
-- it holds a later batch of the writer and partition.
--
-- It runs with the rights of its owner, so that a login of the role topics_writer can append and do nothing else. The head's lock comes
-- first, as in every append: a late copy of a task waits for the first copy, and then sees its entry. A topic that does not exist is
-- created. Its config is read under the head's lock, because a change of the config needs that lock, too.
-- topic_append_judged writes the records.
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
    places  bigint[];
    sizes   int[];
    runs    bigint[];
    ns      bigint[];
    more    bigint;
    rejects boolean;
    done    record;
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
    IF topic.ttl_ms > 0 AND (topic.cap_records > 0 OR topic.cap_bytes > 0) THEN
        PERFORM topic_expire(topic.id, now_ms - topic.ttl_ms);
    END IF;
    rejects := topic.discard = 'reject';
    SELECT array_agg(new.place), array_agg(new.size), array_agg(new.run), array_fill(1::bigint, ARRAY[count(*)::int])
      INTO places, sizes, runs, ns
      FROM (SELECT sent.place, sent.size, sum(sent.size) OVER (ORDER BY sent.place)::bigint AS run
              FROM (SELECT place, octet_length(data::text) + coalesce(octet_length(nullif(meta::text, 'null')), 0) AS size
                      FROM ROWS FROM (json_array_elements(p_data), json_array_elements(p_metas))
                           WITH ORDINALITY AS sent (data, meta, place)) sent
             ORDER BY sent.place) new;
    more := cardinality(places);
    SELECT * INTO done
      FROM topic_append_judged(
               now_ms, topic.durability IN ('memory', 'ephemeral'), ARRAY[topic.id], ARRAY[topic.id], ARRAY[head.version],
               ARRAY[more], ARRAY[runs[more]], '[]', '[]', '[]', ARRAY[0], ARRAY[topic.sealed],
               ARRAY[CASE WHEN rejects THEN nullif(topic.cap_records, 0) END],
               ARRAY[CASE WHEN rejects THEN nullif(topic.cap_bytes, 0) END], NULL,
               p_data, p_tags, p_nodes, p_metas, places, sizes, runs, ns);
    IF done.verdict = 'sealed' THEN
        RAISE EXCEPTION '% is sealed: it takes no records and no deletes until a PUT with sealed false', quote_literal(p_topic)
              USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'topic_sealed';
    ELSIF done.verdict = 'full' AND done.records + more > topic.cap_records AND topic.cap_records > 0 THEN
        RAISE EXCEPTION 'topic % has no room: % of at most % records', quote_literal(p_topic), done.records, topic.cap_records
              USING ERRCODE = 'program_limit_exceeded', HINT = 'topic_full';
    ELSIF done.verdict = 'full' THEN
        RAISE EXCEPTION 'topic % has no room: % of at most % bytes', quote_literal(p_topic), done.bytes, topic.cap_bytes
              USING ERRCODE = 'program_limit_exceeded', HINT = 'topic_full';
    END IF;
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
