-- The part of topics.uncapture with the rights of the owner of topics. p_found: the table, or NULL if none has the name.
CREATE OR REPLACE FUNCTION topics.capture_forget(p_found oid, p_name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
DECLARE
    known outbox_capture;
BEGIN
    SELECT * INTO known FROM outbox_capture WHERE relid = p_found OR p_found IS NULL AND named = p_name FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM door_refuse('not_found', format('%s is not captured', p_name));
    ELSIF NOT coalesce(pg_has_role(session_user, coalesce((SELECT relowner FROM pg_class WHERE oid = p_found), to_regrole(quote_ident(known.owner))), 'MEMBER'),
                       session_user = current_user) THEN
        PERFORM door_refuse('forbidden', format('%L is not the owner of %s', session_user, p_name));
    END IF;
    DELETE FROM outbox_capture WHERE id = known.id;
END
$$;
COMMENT ON FUNCTION topics.capture_forget IS 'Internal.';
