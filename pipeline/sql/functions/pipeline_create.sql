-- Creates a topic for pipeline_store, as topics.append creates one (door_create).
CREATE OR REPLACE FUNCTION pipeline_create(p_topic text, p_now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM door_create(p_topic, p_now_ms, limits) FROM door_limits limits;
END
$$;
