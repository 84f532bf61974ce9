-- Sets a named cursor of a topic to a seq, which must not be beyond the head. Creates a missing cursor. A topic that does not exist is
-- left out, with its cursors.
-- It runs with the rights of its owner, for logins of the role topics_writer. So it asks for the rights of the login first (door_check). The
-- topic's row is locked against a delete, because a cursor must not outlive its topic.
CREATE OR REPLACE FUNCTION pipeline_follow(p_topic text, p_cursor text, p_seq bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
DECLARE
    found_id bigint;
    owner    text;
    most     bigint;
BEGIN
    PERFORM door_check(p_topic, 'commit');
    IF p_cursor !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$' THEN
        RAISE EXCEPTION 'cursor % is no valid name: 1 to 255 of A-Z a-z 0-9 . _ : - are, with a letter or digit first',
              quote_literal(left(p_cursor, 80)) USING ERRCODE = 'invalid_parameter_value', HINT = 'invalid_request';
    END IF;
    PERFORM door_recover();
    SELECT id INTO found_id FROM topics_topic WHERE name = p_topic FOR KEY SHARE;
    SELECT kind INTO owner FROM topics_cursor WHERE topic_id = found_id AND name = p_cursor AND kind NOT IN ('named', 'webhook') LIMIT 1;
    IF owner IS NOT NULL THEN
        RAISE EXCEPTION 'cursor % belongs to a % and is read-only', quote_literal(p_cursor), owner
              USING ERRCODE = 'invalid_parameter_value', HINT = 'incompatible';
    END IF;
    IF NOT EXISTS (SELECT FROM topics_cursor WHERE topic_id = found_id AND name = p_cursor AND kind = 'named') THEN
        SELECT max_cursors INTO most FROM door_limits;
        IF topic_cursors_are_full(found_id, most) THEN
            RAISE EXCEPTION 'the cap of % is reached (cursors_per_topic): delete named cursors of topic %', most, quote_literal(p_topic)
                  USING ERRCODE = 'program_limit_exceeded', HINT = 'invalid_request';
        END IF;
    END IF;
    INSERT INTO topics_cursor AS c (topic_id, kind, name, seq, forwarded_total, updated_ts)
    SELECT topic_id, 'named', p_cursor, p_seq, 0, extract(epoch FROM clock_timestamp()) * 1000
      FROM topics_topichead WHERE topic_id = found_id AND p_seq BETWEEN 0 AND head_seq
    ON CONFLICT (topic_id, name, kind) DO UPDATE SET seq = excluded.seq, updated_ts = excluded.updated_ts;
END
$$;
