-- Raises `invalid_request` for a worker that no lease can have.
CREATE OR REPLACE FUNCTION door_worker(p_node text, limits door_limits) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF coalesce(p_node, '') = '' THEN
        PERFORM door_refuse('invalid_request', 'node is empty: expected the name of the worker', '{"field":"node"}');
    END IF;
    PERFORM door_label('node', to_json(p_node), limits.node_bytes);
END
$$;
