-- Raises `invalid_request` if the relay cannot send a snapshot of a table: it reads the rows with the rights of the owner of topics, in
-- the order of the key.
CREATE OR REPLACE FUNCTION capture_check_snapshot(p_relid oid, p_key text[], p_columns text[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    missing text;
BEGIN
    SELECT string_agg(told, '; ') INTO missing
      FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace,
           LATERAL (VALUES (format('GRANT USAGE ON SCHEMA %I TO %I', nspname, current_user), has_schema_privilege(n.oid, 'USAGE')),
                           (format('GRANT SELECT ON %I.%I TO %I', nspname, relname, current_user), has_table_privilege(c.oid, 'SELECT')))
                   AS needed (told, given)
     WHERE c.oid = p_relid AND NOT given;
    IF missing IS NOT NULL THEN
        PERFORM door_refuse('invalid_request', format('topics may not read the rows for a snapshot: run %s', missing));
    ELSIF row_security_active(p_relid) THEN
        PERFORM door_refuse('invalid_request', format('a policy hides rows of %s from %I: a snapshot would miss them', p_relid::regclass, current_user));
    ELSIF EXISTS (
        SELECT FROM capture_columns(p_relid, p_key, p_columns) JOIN pg_attribute ON attrelid = p_relid AND attname = name
          JOIN pg_type t ON t.oid = atttypid
         WHERE key_place > 0 AND kind = 'other' AND typtype <> 'e') THEN
        PERFORM door_refuse('invalid_request', format('the key of %s has a type of an extension: a snapshot needs a key of PostgreSQL''s own types', p_relid::regclass));
    END IF;
END
$$;
