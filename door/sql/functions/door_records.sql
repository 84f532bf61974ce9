-- Checks an append in the order of HTTP (topics/append/records.py): the shapes of all records, the append, and then each record. Returns
-- the records as the lists of topic_append_judged. p_records is the field `records` of the body, p_node the writer of records without a
-- node, and p_key the idempotency key. is_keyed: each record can have a key of its own (`key`). The levels of `data` are left to the
-- caller.
-- Raises `invalid_request`, `batch_too_large` or `record_too_large`.
CREATE OR REPLACE FUNCTION door_records(
    p_records json, p_node text, p_key text, limits door_limits, is_keyed boolean DEFAULT false,
    OUT data json, OUT tags json, OUT nodes json, OUT metas json, OUT keys json
)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    fields constant text[] := ARRAY['data', 'tag', 'node', 'meta'] || CASE WHEN is_keyed THEN ARRAY['key'] END;
    each  record;
    count bigint;
    size  bigint;
    texts text[] := '{}';
    tag   text[] := '{}';
    node  text[] := '{}';
    meta  text[] := '{}';
    key   text[] := '{}';
    large record;
    sent  record;
BEGIN
    IF p_records IS NULL OR json_typeof(p_records) <> 'array' THEN
        PERFORM door_refuse('invalid_request', format('invalid value in the body at records: expected an array, not %s', door_kind(p_records)),
                            '{"field":"records"}');
    END IF;
    SELECT * INTO sent FROM json_shield(p_records::text);
    IF sent.shielded::text ~* '\\ud[89a-f]' THEN
        BEGIN
            PERFORM json_object_keys(json_build_object('records', sent.shielded));
        EXCEPTION
            WHEN invalid_text_representation THEN
                PERFORM door_refuse('invalid_request', 'the JSON contains half a surrogate pair');
        END;
    END IF;
    FOR each IN
        SELECT i - 1 AS place, CASE json_typeof(record) WHEN 'object' THEN record END AS record, door_kind(record) AS kind
          FROM json_array_elements(sent.shielded) WITH ORDINALITY AS each (record, i)
    LOOP
        PERFORM door_record(each.record, each.kind, each.place, fields, limits.is_strict);
    END LOOP;
    count := json_array_length(p_records);
    IF count = 0 THEN
        PERFORM door_refuse('invalid_request', 'records is empty: expected at least 1 record');
    ELSIF count > limits.records THEN
        PERFORM door_refuse('batch_too_large', format('%s records in one append: expected at most %s', count, limits.records),
                            json_build_object('max', limits.records));
    END IF;
    PERFORM door_key('idempotency_key', p_key);
    p_node := door_label('node', to_json(p_node), limits.node_bytes);
    FOR each IN
        SELECT i - 1 AS place, record FROM json_array_elements(sent.shielded) WITH ORDINALITY AS each (record, i)
    LOOP
        IF is_keyed THEN
            key := key || door_label('key', json_unshield(each.record -> 'key', sent.mark), 4 * 256, each.place);
            PERFORM door_key(format('records[%s].key', each.place), key[each.place + 1]);
        END IF;
        tag := tag || door_label('tag', json_unshield(each.record -> 'tag', sent.mark), limits.tag_bytes, each.place);
        node := node || coalesce(door_label('node', json_unshield(each.record -> 'node', sent.mark), limits.node_bytes, each.place), p_node);
        texts := texts || (each.record -> 'data')::text;
        meta := meta || coalesce(door_meta(each.record -> 'meta', limits, each.place), 'null');
        size := octet_length(texts[each.place + 1]) + coalesce(octet_length(nullif(meta[each.place + 1], 'null')), 0);
        IF size > limits.record_bytes AND large IS NULL THEN
            SELECT each.place AS place, size AS size INTO large;
        END IF;
    END LOOP;
    IF large IS NOT NULL THEN
        PERFORM door_refuse('record_too_large', format('records[%s] has %s bytes: expected at most %s', large.place, large.size, limits.record_bytes),
                            json_build_object('index', large.place, 'max', limits.record_bytes));
    END IF;
    data := json_unshield(('[' || array_to_string(texts, ',') || ']')::json, sent.mark);
    tags := array_to_json(tag);
    nodes := array_to_json(node);
    keys := array_to_json(key);
    metas := json_unshield(('[' || array_to_string(meta, ',') || ']')::json, sent.mark);
END
$$;
