-- Raises an error of the wire: the sentence is the message, the code is the DETAIL, and the fields of the wire's `detail` are the HINT,
-- as JSON. The transaction of the caller can only roll back, to a savepoint at least.
CREATE OR REPLACE FUNCTION door_refuse(p_code text, p_message text, p_fields json DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_fields IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = door_sqlstate(p_code), MESSAGE = p_message, DETAIL = p_code;
    END IF;
    RAISE EXCEPTION USING ERRCODE = door_sqlstate(p_code), MESSAGE = p_message, DETAIL = p_code, HINT = p_fields::text;
END
$$;
