-- Raises `invalid_request` for an idempotency key that no append can have. `p_what` names it. NULL: there is no key.
CREATE OR REPLACE FUNCTION door_key(p_what text, p_key text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_key = '' OR char_length(p_key) > 256 THEN
        PERFORM door_refuse('invalid_request', format('invalid %s: expected 1 to 256 characters', p_what));
    END IF;
END
$$;
