-- Returns the predicate on tags that a text means (topics/read/diff.py): a tag, or a predicate as JSON. The literal of a Glob lacks its `*`,
-- and `behind` is the first tag above all tags with this prefix (NULL: none). Raises `invalid_request`.
CREATE OR REPLACE FUNCTION door_match(p_match text, p_tag_bytes bigint, OUT op text, OUT literal text, OUT behind text)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    predicate json;
    code      integer;
BEGIN
    IF p_match IS NULL THEN
        RETURN;
    ELSIF left(p_match, 1) = '[' THEN
        BEGIN
            predicate := p_match;
        EXCEPTION
            WHEN invalid_text_representation THEN
                NULL;
        END;
        IF predicate IS NULL OR json_array_length(predicate) <> 3 OR (predicate ->> 0, predicate ->> 1) NOT IN (('tag', 'Eq'), ('tag', 'Glob'))
           OR json_typeof(predicate -> 2) <> 'string' THEN
            PERFORM door_refuse('invalid_request', format('invalid match %L: expected a tag, ["tag", "Eq", …] or ["tag", "Glob", …]', left(p_match, 80)),
                                '{"field":"match"}');
        END IF;
        op := predicate ->> 1;
        literal := door_label('match', predicate -> 2, p_tag_bytes + CASE op WHEN 'Glob' THEN 1 ELSE 0 END);
    ELSIF right(p_match, 1) = '*' THEN
        PERFORM door_refuse('invalid_request',
                            format('match=%s can mean a prefix or a tag: send ["tag","Glob",%s] for the prefix, or ["tag","Eq",%s] for the tag',
                                   left(p_match, 80), to_json(left(p_match, 300)), to_json(left(p_match, 300))),
                            '{"field":"match"}');
    ELSE
        op := 'Eq';
        literal := door_label('match', to_json(p_match), p_tag_bytes);
    END IF;
    IF op = 'Eq' THEN
        RETURN;
    END IF;
    IF literal !~ '^[^*]*\*$' THEN
        PERFORM door_refuse('invalid_request', format('invalid Glob %L: expected a prefix without *, and one * at its end', left(literal, 80)));
    END IF;
    literal := left(literal, -1);
    FOR size IN REVERSE char_length(literal) .. 1 LOOP
        code := ascii(substr(literal, size, 1)) + 1;
        IF code <= 1114111 THEN
            behind := left(literal, size - 1) || chr(CASE code WHEN 55296 THEN 57344 ELSE code END);
            EXIT;
        END IF;
    END LOOP;
END
$$;
