-- Raises `invalid_request` for the data of a record that has too many levels (base/depth.py). p_place is the place of the record, from 0.
CREATE OR REPLACE FUNCTION door_deep(p_place bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM door_refuse('invalid_request', 'the data of a record is nested too deeply: expected at most 128 levels',
                        json_build_object('max_depth', 128, 'index', p_place));
END
$$;
