-- Returns whether an append would refuse the data of a record that has JSON of the application: it is nested too deeply, or has half of a
-- surrogate pair.
CREATE OR REPLACE FUNCTION capture_is_odd(p_data text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF strpos(lower(p_data), '\ud') > 0 THEN
        PERFORM json_object_keys(json_build_object('data', (SELECT shielded FROM json_shield(p_data))));
    END IF;
    RETURN octet_length(p_data) > 257 AND json_is_deep(p_data);
EXCEPTION
    WHEN invalid_text_representation THEN
        RETURN true;
END
$$;
