-- Locks the head of the topic with this name, and returns the topic and the head. Until the lock ends, nobody changes the config or
-- deletes the topic, because both need this lock. `head` is NULL if no topic has the name.
CREATE OR REPLACE FUNCTION topic_lock_named(p_name text, OUT topic topics_topic, OUT head topics_topichead)
LANGUAGE plpgsql AS $$
DECLARE
    found_id    bigint;
    found_topic topics_topic;
    found_head  topics_topichead;
BEGIN
    LOOP
        SELECT id INTO found_id FROM topics_topic WHERE name = p_name;
        EXIT WHEN NOT FOUND;
        SELECT * INTO found_head FROM topics_topichead WHERE topic_id = found_id LIMIT 1 FOR UPDATE;
        CONTINUE WHEN NOT FOUND;  -- the topic was deleted since the lookup of its name
        SELECT * INTO found_topic FROM topics_topic WHERE id = found_id;
        EXIT;
    END LOOP;
    topic := found_topic;
    head := found_head;
END
$$;
