-- Appends records to a topic that the caller has locked (topic_lock_named), in the caller's transaction: the part that `topics.append`
-- and pipeline_store share. The config is that of the lock, so no version can differ. topic_append_judged writes the records, as
-- for HTTP.
--
-- In:  the lists are those of topic_append_judged for one append. p_key: the idempotency key. p_expected_head: the head that the topic
--      must have.
-- Out: the verdict of topic_append_judged. `head_seq`, `records` and `bytes` are those before the call. Two more verdicts, which wrote
--      nothing: 'deep' if the record at `place` (from 0) has more levels than JSON may have, and 'twice' if the record at `place` has
--      the tag of the record at `other`, in a topic with unique tags. For 'other', `place` is the record that differs, if each has a
--      key of its own: so it is in a topic with unique tags.
CREATE OR REPLACE FUNCTION topic_append(
    p_topic topics_topic, p_head topics_topichead, p_now bigint, p_data json, p_tags json, p_nodes json, p_metas json,
    p_key text DEFAULT NULL, p_expected_head bigint DEFAULT NULL,
    OUT verdict text, OUT first_seq bigint, OUT last_seq bigint, OUT head_seq bigint, OUT records bigint, OUT bytes bigint,
    OUT place bigint, OUT other bigint
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    is_capped constant boolean := p_topic.cap_records > 0 OR p_topic.cap_bytes > 0;
    rejects   constant boolean := is_capped AND p_topic.discard = 'reject';
    expired   constant bigint := CASE WHEN p_topic.ttl_ms > 0 THEN p_now - p_topic.ttl_ms END;  -- older records have expired
    places    bigint[];
    sizes     int[];
    runs      bigint[];
    ns        bigint[];
    more      bigint;
    key       text := p_key;
    keys      json;  -- of each record
    digests   json;
    told      record;
BEGIN
    SELECT array_agg(new.place), array_agg(new.size), array_agg(new.run), array_fill(1::bigint, ARRAY[count(*)::int]),
           min(new.deep) - 1
      INTO places, sizes, runs, ns, place
      FROM (SELECT sent.place, sent.size, sent.deep, sum(sent.size) OVER (ORDER BY sent.place)::bigint AS run
              FROM (SELECT place, octet_length(data::text) + coalesce(octet_length(nullif(meta::text, 'null')), 0) AS size,
                           CASE WHEN octet_length(data::text) > 257 AND json_is_deep(data::text)
                                  OR octet_length(meta::text) > 257 AND json_is_deep(meta::text) THEN place END AS deep
                      FROM ROWS FROM (json_array_elements(p_data), json_array_elements(p_metas))
                           WITH ORDINALITY AS sent (data, meta, place)) sent
             ORDER BY sent.place) new;
    IF place IS NOT NULL THEN
        verdict := 'deep';
        RETURN;
    END IF;
    more := cardinality(places);
    IF p_topic.unique_tags THEN
        SELECT min(tagged.i) - 1, tagged.first - 1 INTO place, other
          FROM (SELECT tag, i, min(i) OVER (PARTITION BY tag) AS first
                  FROM json_array_elements_text(p_tags) WITH ORDINALITY AS tagged (tag, i)) tagged
         WHERE tagged.tag IS NOT NULL AND tagged.i > tagged.first
         GROUP BY tagged.first ORDER BY 1 LIMIT 1;
        IF place IS NOT NULL THEN
            verdict := 'twice';
            RETURN;
        END IF;
        IF key IS NOT NULL THEN  -- a topic that can leave out records remembers each record by itself (topics/append/keys.py)
            SELECT json_agg(key || '#' || i - 1 ORDER BY i),
                   json_agg(records_digest(p_data, p_tags, p_nodes, p_metas, NULL, NULL, i)::text ORDER BY i)
              INTO keys, digests
              FROM generate_series(1, more) i;
            key := NULL;
        END IF;
    END IF;
    IF rejects OR p_topic.unique_tags THEN  -- expired records make room first, and hold no tag
        WHILE topic_expire(p_topic.id, expired) > 0 LOOP
        END LOOP;
    END IF;
    FOR told IN
        SELECT * FROM topic_append_judged(
            p_now, p_topic.durability IN ('memory', 'ephemeral'), ARRAY[p_topic.id], ARRAY[p_topic.id], ARRAY[p_head.version],
            ARRAY[more], ARRAY[runs[more]], json_build_array(p_expected_head), json_build_array(key),
            json_build_array(CASE WHEN key IS NOT NULL THEN records_digest(p_data, p_tags, p_nodes, p_metas)::text END),
            ARRAY[p_now - p_topic.idempotency_window_ms], ARRAY[p_topic.sealed],
            ARRAY[CASE WHEN rejects THEN nullif(p_topic.cap_records, 0) END],
            ARRAY[CASE WHEN rejects THEN nullif(p_topic.cap_bytes, 0) END], NULL,
            p_data, p_tags, p_nodes, p_metas, places, sizes, runs, ns, keys, digests,
            CASE WHEN p_topic.unique_tags THEN ARRAY[true] END)
         ORDER BY head_seq
    LOOP
        IF told.verdict = 'differs' AND place IS NULL THEN
            place := told.head_seq - 1;
            first_seq := told.first_seq;
            last_seq := told.last_seq;
        ELSIF told.verdict NOT IN ('differs', 'known') THEN
            verdict := told.verdict;
            head_seq := told.head_seq;
            records := told.records;
            bytes := told.bytes;
            IF place IS NULL THEN
                first_seq := told.first_seq;
                last_seq := told.last_seq;
            END IF;
        END IF;
    END LOOP;
    IF verdict = 'done' AND is_capped AND NOT rejects THEN
        PERFORM topic_make_room(head, expired, p_topic.cap_records, p_topic.cap_bytes, more, runs[more])
           FROM topics_topichead head
          WHERE head.topic_id = p_topic.id
            AND (p_topic.cap_records BETWEEN 1 AND head.count - 1 OR p_topic.cap_bytes BETWEEN 1 AND head.bytes - 1)
          LIMIT 1;
    END IF;
END
$$;
