-- Returns a string of JSON as text. Raises `invalid_request` if it is longer than p_most bytes, or if PostgreSQL cannot hold it. `p_what`
-- names it. p_index: the place of its record, or NULL.
CREATE OR REPLACE FUNCTION door_label(p_what text, p_label json, p_most bigint, p_index bigint DEFAULT NULL) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    label  text;
    fields constant json := CASE WHEN p_index IS NOT NULL THEN json_build_object('index', p_index) END;
BEGIN
    IF p_label IS NULL OR json_typeof(p_label) = 'null' THEN
        RETURN NULL;
    ELSIF p_label::text ~ '(^|[^\\])(\\\\)*\\u0000' THEN
        PERFORM door_refuse('invalid_request', p_what || ' contains a NUL character: remove it', fields);
    END IF;
    label := p_label #>> '{}';
    IF octet_length(label) > p_most THEN
        PERFORM door_refuse('invalid_request', format('%s has %s bytes: expected at most %s', p_what, octet_length(label), p_most), fields);
    END IF;
    RETURN label;
END
$$;
