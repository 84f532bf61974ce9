-- Writes emitted records of one topic in their order, and returns their number. Checks the rights of the login and then the records, as
-- topics.append does, and raises the same errors. The records are those of door_records, each with a `key` of its own.
CREATE OR REPLACE FUNCTION outbox_write(p_topic text, p_records json, p_node text) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    limits  door_limits;
    lists   record;
    deep    bigint;
    written bigint;
BEGIN
    PERFORM door_check(p_topic, 'write');
    PERFORM door_name(p_topic, 'topic');
    IF json_typeof(p_records) = 'array' AND json_array_length(p_records) = 0 THEN
        RETURN 0;
    END IF;
    SELECT * INTO limits FROM door_limits;
    limits.records := 9223372036854775807;  -- the relay makes appends of its own of them
    SELECT * INTO lists FROM door_records(p_records, p_node, NULL, limits, is_keyed => true);
    SELECT min(place) - 1 INTO deep
      FROM json_array_elements(lists.data) WITH ORDINALITY AS sent (data, place)
     WHERE octet_length(data::text) > 257 AND json_is_deep(data::text);
    IF deep IS NOT NULL THEN
        PERFORM door_deep(deep);
    END IF;
    INSERT INTO outbox_emitted (size, topic, tag, node, key, data, meta)
    SELECT octet_length(data::text) + coalesce(octet_length(nullif(meta::text, 'null')), 0), p_topic, tag, node, key, data,
           nullif(meta::text, 'null')::json
      FROM ROWS FROM (json_array_elements(lists.data), json_array_elements_text(lists.tags), json_array_elements_text(lists.nodes),
                      json_array_elements_text(lists.keys), json_array_elements(lists.metas))
                      WITH ORDINALITY AS sent (data, tag, node, key, meta, place)
     ORDER BY place;
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END
$$;
