-- Returns the topic with this name. Raises `topic_not_found`, or `invalid_request` for a name that no topic can have.
CREATE OR REPLACE FUNCTION door_topic(p_name text) RETURNS topics_topic
LANGUAGE plpgsql AS $$
DECLARE
    topic topics_topic;
BEGIN
    SELECT * INTO topic FROM topics_topic WHERE name = p_name;
    IF NOT FOUND THEN
        PERFORM door_name(p_name, 'topic');
        PERFORM door_refuse('topic_not_found', format('topic %L does not exist', p_name), json_build_object('topic', p_name));
    END IF;
    RETURN topic;
END
$$;
