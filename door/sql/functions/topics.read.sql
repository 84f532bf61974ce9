CREATE OR REPLACE FUNCTION topics.read(topic text, from_seq bigint DEFAULT 0, "limit" integer DEFAULT 256, match text DEFAULT NULL)
RETURNS TABLE (seq bigint, ts bigint, node text, tag text, meta json, data json, reason text, gap_from bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    now_ms  constant bigint := extract(epoch FROM clock_timestamp()) * 1000;
    limits  door_limits;
    matched record;
    known   topics_topic;
    told    record;
    wanted  integer;
    last    bigint := 0;
    list    record;
BEGIN
    PERFORM door_check(read.topic, 'read');
    SELECT * INTO limits FROM door_limits;
    PERFORM door_number('from_seq', read.from_seq, 0);
    PERFORM door_number('limit', read."limit", 1);
    SELECT * INTO matched FROM door_match(read.match, limits.tag_bytes);
    PERFORM door_recover();
    wanted := least(read."limit", limits.diff_limit);
    LOOP
        known := door_topic(read.topic);
        -- One statement, and so one snapshot, finds the version of the head and reads the records.
        IF matched.op IS NULL THEN
            SELECT shown.*, NULL::bigint AS scanned_to INTO told
              FROM topics_topichead head
             CROSS JOIN LATERAL topic_diff(head.topic_id, head.version, read.from_seq, wanted, NULL, NULL, NULL, true, true,
                                           limits.diff_bytes, CASE WHEN known.ttl_ms > 0 THEN now_ms - known.ttl_ms END) shown
             WHERE head.topic_id = known.id;
        ELSE
            SELECT shown.* INTO told
              FROM topics_topichead head
             CROSS JOIN LATERAL topic_diff_matches(head.topic_id, head.version, read.from_seq, wanted, NULL, matched.op, matched.literal,
                                                   matched.behind, 'asc', true, true, limits.diff_bytes,
                                                   CASE WHEN known.ttl_ms > 0 THEN now_ms - known.ttl_ms END, 5000) shown
             WHERE head.topic_id = known.id;
        END IF;
        EXIT WHEN FOUND;  -- otherwise the topic was deleted since its lookup
    END LOOP;
    IF told.lost IS NOT NULL THEN
        seq := told.gap_to;
        reason := told.lost;
        gap_from := least(read.from_seq, told.gap_to) + 1;
        last := seq;
        RETURN NEXT;
        reason := NULL;
        gap_from := NULL;
    END IF;
    SELECT * INTO list FROM json_shield('[' || coalesce(told.records, '') || ']');
    FOR seq, ts, node, tag, meta, data IN
        SELECT (record ->> '$seq')::bigint, (record ->> '$ts')::bigint, record ->> '$node', record ->> '$tag', json_unshield(record -> 'meta', list.mark), json_unshield(record -> 'data', list.mark)
          FROM json_array_elements(list.shielded) record
    LOOP
        last := seq;
        RETURN NEXT;
    END LOOP;
    IF matched.op IS NOT NULL AND told.next_from_seq > greatest(last, read.from_seq) THEN
        seq := told.next_from_seq;
        ts := NULL;
        node := NULL;
        tag := NULL;
        meta := NULL;
        data := NULL;
        reason := 'examined';
        RETURN NEXT;
    END IF;
END
$$;
COMMENT ON FUNCTION topics.read IS
'Returns the next records of a topic after from_seq, in order, as a read over HTTP does. Continue after the seq of the last row. A row with a reason is no record: cap, ttl, restart, source_trim, capture, recreated and mixed are a tombstone for the lost seqs gap_from to seq. examined, with match alone, says that no record up to this seq matches. match: a tag, or a predicate as JSON.';
