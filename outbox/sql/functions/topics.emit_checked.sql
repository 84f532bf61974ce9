-- The part of topics.emit for a record that is not valid at first sight, or that the login may not write: raises its error, or
-- writes it.
CREATE OR REPLACE FUNCTION topics.emit_checked(topic text, data json, tag text, node text, meta json, key text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
BEGIN
    IF emit_checked.data IS NULL THEN
        PERFORM door_check(emit_checked.topic, 'write');
        PERFORM door_refuse('invalid_request', 'data is NULL: expected a JSON value. JSON''s null is ''null''');
    END IF;
    PERFORM outbox_write(emit_checked.topic,
                         json_build_array(json_build_object('data', emit_checked.data, 'tag', emit_checked.tag, 'node', emit_checked.node,
                                                            'meta', emit_checked.meta, 'key', emit_checked.key)),
                         NULL);
END
$$;
COMMENT ON FUNCTION topics.emit_checked IS 'Internal.';
