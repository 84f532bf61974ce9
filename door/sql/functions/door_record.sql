-- Raises `invalid_request` unless a record has the shape of a record. p_record is NULL for a value that is no object, and p_kind says what
-- it is. p_place is the place in the append, from 0. p_fields: the fields that a record can have.
CREATE OR REPLACE FUNCTION door_record(p_record json, p_kind text, p_place bigint, p_fields text[], p_is_strict boolean) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    name text;
BEGIN
    IF p_record IS NULL THEN
        PERFORM door_refuse('invalid_request', format('invalid value in the body at records[%s]: expected an object, not %s', p_place, p_kind),
                            json_build_object('field', format('records[%s]', p_place)));
    END IF;
    FOREACH name IN ARRAY ARRAY['tag', 'node', 'key'] LOOP
        IF name = ANY (p_fields) AND json_typeof(p_record -> name) NOT IN ('string', 'null') THEN
            PERFORM door_refuse('invalid_request',
                                format('invalid value in the body at records[%s].%s: expected a string or null, not %s', p_place, name,
                                       door_kind(p_record -> name)),
                                json_build_object('field', format('records[%s].%s', p_place, name)));
        END IF;
    END LOOP;
    IF p_is_strict THEN
        SELECT key INTO name FROM json_object_keys(p_record) key WHERE key <> ALL (p_fields) LIMIT 1;
        IF FOUND THEN
            PERFORM door_refuse('invalid_request', format('unknown field %L in the body at records[%s]. Known fields: %s', left(name, 80), p_place,
                                                          array_to_string(p_fields, ', ')),
                                json_build_object('field', left(name, 80)));
        END IF;
    END IF;
    IF p_record -> 'data' IS NULL THEN
        PERFORM door_refuse('invalid_request', format('missing field ''data'' in the body at records[%s]', p_place), '{"field":"data"}');
    END IF;
END
$$;
