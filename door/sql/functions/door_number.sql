-- Raises `invalid_request` for a number beyond its bounds, and for NULL unless p_nullable.
CREATE OR REPLACE FUNCTION door_number(
    p_field text, p_value bigint, p_least bigint, p_most bigint DEFAULT 9223372036854775807, p_nullable boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_value BETWEEN p_least AND p_most OR p_value IS NULL AND p_nullable THEN
        RETURN;
    END IF;
    PERFORM door_refuse('invalid_request',
                        format('invalid value in the body at %s: expected a whole number%s', p_field,
                               CASE WHEN p_value IS NULL THEN ', not null'
                                    WHEN p_value < p_least THEN ' of at least ' || p_least
                                    ELSE ' of at most ' || p_most END),
                        json_build_object('field', p_field));
END
$$;
