-- Returns the entry of a change that topics cannot take, with the reason: `[null, reason]`. p_fails: raises the error instead.
CREATE OR REPLACE FUNCTION capture_refused(p_entry text, p_most bigint, p_fails boolean) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    is_large constant boolean := octet_length(p_entry) > p_most;
    reason   constant text := CASE WHEN is_large THEN format('a record has %s bytes: expected at most %s', octet_length(p_entry), p_most)
                                   ELSE 'a key is too long for a tag, or topics refuse its JSON' END || format(': %s…', left(p_entry, 80));
BEGIN
    IF p_fails THEN
        PERFORM door_refuse(CASE WHEN is_large THEN 'record_too_large' ELSE 'invalid_request' END, reason);
    END IF;
    RETURN json_build_array(NULL, reason);
END
$$;
