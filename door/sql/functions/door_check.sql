-- Raises the error `forbidden` if the login may not use a topic with this scope (read, write, commit). Every function of the schema
-- `topics` calls it first, also before it tells whether the topic exists.
CREATE OR REPLACE FUNCTION door_check(p_topic text, p_scope text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF door_may(p_topic, p_scope) THEN
        RETURN;
    ELSIF NOT EXISTS (SELECT FROM door_mine WHERE p_scope = ANY (scopes)) THEN
        PERFORM door_refuse('forbidden', format('the login %L lacks the scope %L: use another login, or grant the scope', session_user, p_scope),
                            json_build_object('scope', p_scope));
    END IF;
    PERFORM door_refuse('forbidden', format('%L is outside the prefixes of the login %L: use another login, or grant a prefix',
                                            left(p_topic, 80), session_user),
                        json_build_object('name', p_topic));
END
$$;
