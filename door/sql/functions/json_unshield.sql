-- Returns a part of the JSON of json_shield as it was. The body is one expression, so that PostgreSQL inlines it.
CREATE OR REPLACE FUNCTION json_unshield(p_part json, p_mark text) RETURNS json
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_mark IS NULL THEN p_part ELSE replace(p_part::text, p_mark, '\u0000')::json END
$$;
