-- Returns whether the login may write the topic. topics.emit needs it in this schema, because its caller can have any search_path.
CREATE OR REPLACE FUNCTION topics.emit_may(topic text) RETURNS boolean
LANGUAGE sql STABLE
RETURN door_may(emit_may.topic, 'write');
COMMENT ON FUNCTION topics.emit_may IS 'Internal.';
