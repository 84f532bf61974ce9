-- Returns the kind of a JSON value in the words of an error.
CREATE OR REPLACE FUNCTION door_kind(p_value json) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE json_typeof(p_value)
           WHEN 'array' THEN 'an array'
           WHEN 'object' THEN 'an object'
           WHEN 'string' THEN 'a string'
           WHEN 'boolean' THEN 'true or false'
           WHEN 'number' THEN CASE WHEN p_value::text ~ '[.eE]' THEN 'a number' ELSE 'a whole number' END
           ELSE 'null' END
$$;
