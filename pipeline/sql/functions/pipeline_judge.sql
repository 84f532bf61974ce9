-- Raises the error of topics.append for records that it would refuse. The lists are those of topic_append.
--
-- Nearly all records are valid at first sight (topics.emit_size). If one of them is not, door_records looks at all of them, and raises its
-- error or finds that they are valid: in every chunk, it would take longer than the append.
CREATE OR REPLACE FUNCTION pipeline_judge(p_data json, p_tags json, p_nodes json, p_metas json) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    count   constant bigint := json_array_length(p_data);
    limits  door_limits;
    records json;
BEGIN
    IF (json_array_length(p_tags), json_array_length(p_nodes), json_array_length(p_metas)) IS DISTINCT FROM (count, count, count) THEN
        PERFORM door_refuse('invalid_request', 'the lists of a chunk differ in length: expected a value of each for each record');
    END IF;
    SELECT * INTO limits FROM door_limits;
    limits.records := count;  -- a chunk is no append: Spark appends the chunks of a partition in one transaction
    IF NOT EXISTS (
        SELECT FROM ROWS FROM (json_array_elements(p_data), json_array_elements_text(p_tags), json_array_elements_text(p_nodes),
                               json_array_elements(p_metas)) AS sent (data, tag, node, meta)
         WHERE topics.emit_size(limits.record_bytes, limits.tag_bytes, limits.node_bytes, limits.meta_bytes, limits.meta_keys,
                                'any', data, tag, node, nullif(meta::text, 'null')::json, NULL) IS NULL) THEN
        RETURN;
    END IF;
    SELECT json_agg(json_build_object('data', data, 'tag', tag, 'node', node, 'meta', meta) ORDER BY place) INTO records
      FROM ROWS FROM (json_array_elements(p_data), json_array_elements(p_tags), json_array_elements(p_nodes), json_array_elements(p_metas))
           WITH ORDINALITY AS sent (data, tag, node, meta, place);
    PERFORM door_records(records, NULL, NULL, limits);
END
$$;
