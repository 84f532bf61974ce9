-- Returns the path of the first number of a JSON value that is beyond the range of a 64-bit double, or NULL. The path is that of
-- overflow() in base/doubles.py. Most values have no exponent and no long number, and only the others are taken apart.
CREATE OR REPLACE FUNCTION json_overflow(p_json text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    most    CONSTANT integer := 256;
    depth   integer := 0;
    indexes bigint[];  -- of each level: NULL for an object
    keys    text[];
    last    text;
    token   text;
    path    text;
BEGIN
    IF p_json !~ '[0-9][eE]\+?[0-9]|[0-9]{255}' THEN
        RETURN NULL;
    END IF;
    FOR token IN
        SELECT part[1] FROM regexp_matches(p_json, '"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|[][{},:]', 'g') part
    LOOP
        CASE left(token, 1)
        WHEN '[' THEN
            depth := depth + 1;
            indexes[depth] := 0;
        WHEN '{' THEN
            depth := depth + 1;
            indexes[depth] := NULL;
        WHEN ']', '}' THEN
            depth := depth - 1;
        WHEN ',' THEN
            indexes[depth] := indexes[depth] + 1;
        WHEN ':' THEN
            keys[depth] := last;
        WHEN '"' THEN
            last := token;
        ELSE
            IF number_overflows(token) THEN
                SELECT coalesce(string_agg(CASE WHEN indexes[n] IS NOT NULL THEN format('[%s]', indexes[n])
                                                WHEN keys[n] ~ '^"[A-Za-z_][A-Za-z0-9_]*"$' THEN '.' || btrim(keys[n], '"')
                                                ELSE format('[%s]', keys[n]) END, '' ORDER BY n), '')
                  INTO path FROM generate_series(1, depth) n;
                RETURN CASE WHEN length(path) <= most THEN path ELSE left(path, most) || '…' END;
            END IF;
        END CASE;
    END LOOP;
    RETURN NULL;
END
$$;
