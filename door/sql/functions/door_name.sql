-- Raises the error `invalid_request` if no topic or cursor can have this name.
CREATE OR REPLACE FUNCTION door_name(p_name text, p_what text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_name ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$' AND strpos(p_name, E'\n') = 0 THEN
        RETURN;
    END IF;
    PERFORM door_refuse('invalid_request', format(
        'invalid %s %L: expected 1 to 255 of A-Z a-z 0-9 . _ : - with a letter or digit first', p_what, left(p_name, 80)));
END
$$;
