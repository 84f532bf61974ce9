-- Raises `invalid_request` for a number beyond the range of a double, which a topic with the numbers "double" must not get. The lists are
-- those of topic_append.
CREATE OR REPLACE FUNCTION door_doubles(p_data json, p_metas json) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    beyond record;
BEGIN
    SELECT * INTO beyond FROM records_overflow(p_data, p_metas);
    IF beyond.field IS NOT NULL THEN
        PERFORM door_refuse('invalid_request',
                            format('%s is beyond the range of a double, and the topic has numbers "double": send the number as a string',
                                   beyond.field),
                            json_build_object('field', beyond.field, 'index', beyond.index));
    END IF;
END
$$;
