-- Returns the `meta` of a record as text (base/bounds.py), or NULL for none. Raises `invalid_request`.
CREATE OR REPLACE FUNCTION door_meta(p_meta json, limits door_limits, p_index bigint) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    fields constant json := json_build_object('index', p_index);
    keys   bigint;
    own    text;
BEGIN
    IF p_meta IS NULL OR json_typeof(p_meta) = 'null' THEN
        RETURN NULL;
    ELSIF octet_length(p_meta::text) > limits.meta_bytes THEN
        PERFORM door_refuse('invalid_request', format('meta has %s bytes: expected at most %s', octet_length(p_meta::text), limits.meta_bytes), fields);
    ELSIF json_typeof(p_meta) <> 'object' THEN
        PERFORM door_refuse('invalid_request', 'invalid meta: expected an object', fields);
    END IF;
    SELECT count(DISTINCT key), min(key) FILTER (WHERE meta_owner(key) IS NOT NULL)
      INTO keys, own FROM json_object_keys(p_meta) key;
    IF keys > limits.meta_keys THEN
        PERFORM door_refuse('invalid_request', format('meta has %s keys: expected at most %s', keys, limits.meta_keys), fields);
    ELSIF octet_length(p_meta::text) > 257 AND json_is_deep(p_meta::text) THEN
        PERFORM door_refuse('invalid_request', 'meta is nested too deeply: expected at most 128 levels',
                            json_build_object('max_depth', 128, 'index', p_index));
    ELSIF own IS NOT NULL THEN
        PERFORM door_refuse('invalid_request', format('meta has the key %s, which only servers write: leave the key out', own), fields);
    END IF;
    RETURN p_meta::text;
END
$$;
