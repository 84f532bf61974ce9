-- topics.emit for many records of one topic, in their order. `records` is a JSON array as in the body of an append over HTTP: objects
-- with data, and with tag, node, meta and key if you like. Returns their number.
CREATE OR REPLACE FUNCTION topics.emit_many(topic text, records json, node text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
BEGIN
    RETURN outbox_write(emit_many.topic, emit_many.records, emit_many.node);
END
$$;
COMMENT ON FUNCTION topics.emit_many IS
'Appends the records of a JSON array to a topic when this transaction commits, each exactly once and in their order. A record is an object with data, and with tag, node, meta and key if you like. Returns their number. Errors: TP001 invalid_request, TP003 record_too_large, TP004 forbidden.';
