-- An event of the caller's transaction: the record comes to its topic if the transaction commits, exactly once, and never otherwise.
-- It writes one row (outbox_emitted) and takes no lock that another caller waits for. The relay of a worker moves the row.
--
-- It runs with the rights of its owner, so a login needs no right on our tables. Its caller can have any search_path, and to set another
-- one takes longer than the rest of the function. So its text has no operator, and no name without a schema.
CREATE OR REPLACE FUNCTION topics.emit(
    topic text, data json, tag text DEFAULT NULL, node text DEFAULT NULL, meta json DEFAULT NULL, key text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    most  topics.emit_limits;
    may   boolean := true;
    bytes int;
BEGIN
    SELECT * INTO most FROM topics.emit_limits;
    IF most.has_rights THEN
        may := topics.emit_may(emit.topic);
    END IF;
    IF may THEN
        bytes := topics.emit_size(most.record_bytes, most.tag_bytes, most.node_bytes, most.meta_bytes, most.meta_keys,
                                  emit.topic, emit.data, emit.tag, emit.node, emit.meta, emit.key);
    END IF;
    IF bytes IS NULL THEN
        PERFORM topics.emit_checked(emit.topic, emit.data, emit.tag, emit.node, emit.meta, emit.key);
        RETURN;
    END IF;
    INSERT INTO topics.emitted (size, topic, tag, node, key, data, meta)
    VALUES (bytes, emit.topic, emit.tag, emit.node, emit.key, emit.data, emit.meta);
END
$$;
COMMENT ON FUNCTION topics.emit IS
'Appends a record to a topic when this transaction commits, exactly once. The topic is created if it does not exist. Errors: TP001 invalid_request, TP003 record_too_large, TP004 forbidden. After the commit, NOTIFY topics as a statement of its own makes the record arrive at once.';
