-- Returns whether a table has all four triggers of a capture, and none is disabled. Their argument is a text that ends with a zero byte.
CREATE OR REPLACE FUNCTION capture_has_trigger(p_relid oid, p_id bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT count(*) = 4
      FROM pg_trigger JOIN pg_proc p ON p.oid = tgfoid
     WHERE tgrelid = p_relid AND pronamespace = 'topics'::regnamespace AND proname = 'capture_changes' AND tgenabled IN ('O', 'A')
       AND tgargs = convert_to(p_id::text, 'UTF8') || decode('00', 'hex')
$$;
