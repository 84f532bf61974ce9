-- Returns true if a JSON value has more levels than base/depth.py allows. The text is the one that was sent. Most values are short, or
-- have few brackets, and only the others lose their strings and then, in each round, their innermost pairs of brackets.
CREATE OR REPLACE FUNCTION json_is_deep(p_json text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    most     CONSTANT integer := 128;
    brackets text;
BEGIN
    IF octet_length(p_json) - octet_length(replace(replace(p_json, '[', ''), '{', '')) <= most THEN
        RETURN false;
    END IF;
    brackets := regexp_replace(p_json, '"([^"\\]|\\.)*"', '', 'g');
    brackets := translate(regexp_replace(brackets, '[^][{}]+', '', 'g'), '{}', '[]');
    FOR n IN 1..most LOOP
        EXIT WHEN brackets = '';
        brackets := replace(brackets, '[]', '');
    END LOOP;
    RETURN brackets <> '';
END
$$;
