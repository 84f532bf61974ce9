CREATE OR REPLACE FUNCTION topics.read_cursor(topic text, name text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    known topics_topic;
BEGIN
    PERFORM door_check(read_cursor.topic, 'read');
    PERFORM door_name(read_cursor.name, 'cursor');
    known := door_topic(read_cursor.topic);
    RETURN coalesce((SELECT c.seq FROM topics_cursor c WHERE topic_id = known.id AND name = read_cursor.name AND kind = 'named'), 0);
END
$$;
COMMENT ON FUNCTION topics.read_cursor IS
'Returns the seq of a named cursor of a topic, or 0 if the topic has no such cursor. Your consumer continues after it.';
