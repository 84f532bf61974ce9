CREATE OR REPLACE FUNCTION topics.commit_cursor(topic text, name text, seq bigint, expected_seq bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    now_ms constant bigint := extract(epoch FROM clock_timestamp()) * 1000;
    known  topics_topic;
    head   bigint;
    held   bigint;
    most   bigint;
    owner  text;
BEGIN
    PERFORM door_check(commit_cursor.topic, 'commit');
    PERFORM door_name(commit_cursor.name, 'cursor');
    PERFORM door_number('seq', commit_cursor.seq, 0);
    PERFORM door_number('expected_seq', commit_cursor.expected_seq, 0, p_nullable => true);
    PERFORM door_recover();
    -- The topic's row is locked against a delete, because a cursor must not outlive its topic. Then comes the cursor, as in
    -- topics/cursors/updates.py.
    SELECT * INTO known FROM topics_topic WHERE name = commit_cursor.topic FOR KEY SHARE;
    IF NOT FOUND THEN
        known := door_topic(commit_cursor.topic);
    END IF;
    SELECT head_seq INTO head FROM topics_topichead WHERE topic_id = known.id LIMIT 1;
    IF commit_cursor.seq > head THEN
        PERFORM door_refuse('invalid_request', format('seq %s is above the head of %L: expected at most %s', commit_cursor.seq, known.name, head),
                            json_build_object('head_seq', head));
    END IF;
    SELECT kind INTO owner FROM topics_cursor WHERE topic_id = known.id AND name = commit_cursor.name AND kind NOT IN ('named', 'webhook') LIMIT 1;
    IF FOUND THEN
        PERFORM door_refuse('topic_exists_incompatible', format('cursor %L belongs to a %s and is read-only', commit_cursor.name, owner),
                            json_build_object('kind', owner));
    END IF;
    IF coalesce(commit_cursor.expected_seq, 0) = 0
       AND NOT EXISTS (SELECT FROM topics_cursor WHERE topic_id = known.id AND name = commit_cursor.name AND kind = 'named') THEN
        SELECT max_cursors INTO most FROM door_limits;
        IF topic_cursors_are_full(known.id, most) THEN
            PERFORM door_refuse('throttled', format('the cap of %s is reached (cursors_per_topic): try again later', most),
                                json_build_object('limit', 'cursors_per_topic', 'max', most));
        END IF;
    END IF;
    INSERT INTO topics_cursor AS c (topic_id, kind, name, seq, forwarded_total, updated_ts)
    SELECT known.id, 'named', commit_cursor.name, commit_cursor.seq, 0, now_ms
     WHERE coalesce(commit_cursor.expected_seq, 0) = 0
        OR EXISTS (SELECT FROM topics_cursor WHERE topic_id = known.id AND name = commit_cursor.name AND kind = 'named')
    ON CONFLICT (topic_id, name, kind) DO UPDATE SET seq = excluded.seq, updated_ts = excluded.updated_ts
     WHERE coalesce(commit_cursor.expected_seq = c.seq, true);
    IF NOT FOUND THEN
        SELECT c.seq INTO held FROM topics_cursor c WHERE topic_id = known.id AND name = commit_cursor.name AND kind = 'named';
        PERFORM door_refuse('cursor_moved', format('the cursor is at %s, not at %s: another reader moved it', coalesce(held, 0),
                                                   commit_cursor.expected_seq),
                            json_build_object('seq', coalesce(held, 0)));
    END IF;
END
$$;
COMMENT ON FUNCTION topics.commit_cursor IS
'Sets a named cursor of a topic to a seq in your transaction, and creates a missing one. The rows that you wrote for the records up to this seq commit with it, so each record counts once. expected_seq: the seq that the cursor must have (a missing one has 0). If it has another, another reader was first: the error is cursor_moved.';
