-- Returns the queue with this name. Raises `topic_not_found`, `not_a_queue` or `topic_sealed`.
CREATE OR REPLACE FUNCTION door_queue(p_name text) RETURNS topics_topic
LANGUAGE plpgsql AS $$
DECLARE
    topic constant topics_topic := door_topic(p_name);
BEGIN
    IF topic.type <> 'queue' THEN
        PERFORM door_refuse('not_a_queue', format('topic %L is a log: only a topic of type queue has jobs', p_name),
                            json_build_object('topic', p_name));
    ELSIF topic.sealed THEN
        PERFORM door_refuse('topic_sealed', format('topic %L is sealed, and takes no records and no deletes: unseal the topic with a PUT, sealed: false',
                                                   p_name),
                            json_build_object('topic', p_name));
    END IF;
    RETURN topic;
END
$$;
