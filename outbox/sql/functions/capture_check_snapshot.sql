-- Raises `invalid_request` if the relay cannot send a snapshot of a table: it reads the rows with the rights of the owner of topics, in
-- the order of the key. The relay asks again before each chunk, because the owner of the table can change it.
--
-- PostgreSQL runs functions of indexes, of statistics and of partitions with constant arguments while it plans a statement.
CREATE OR REPLACE FUNCTION capture_check_snapshot(p_relid oid, p_key text[], p_columns text[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    missing text;
    parts   oid[];  -- the table, and its partitions
    odd     text;   -- of them, or a function that they use
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
    ELSIF EXISTS (SELECT FROM capture_columns(p_relid, p_key, p_columns) WHERE key_place > 0 AND type IS NULL) THEN
        PERFORM door_refuse('invalid_request', format('the key of %s has a type of an extension: a snapshot needs a key of PostgreSQL''s own types', p_relid::regclass));
    END IF;
    WITH RECURSIVE part AS (
        SELECT p_relid AS oid
         UNION
        SELECT inhrelid FROM part JOIN pg_inherits ON inhparent = part.oid)
    SELECT array_agg(oid) INTO parts FROM part;
    SELECT oid::regclass INTO odd FROM pg_class WHERE oid = ANY (parts) AND relkind NOT IN ('r', 'p') LIMIT 1;
    IF FOUND THEN
        PERFORM door_refuse('invalid_request', format('%s is a view or a foreign table: a snapshot reads only tables', odd));
    END IF;
    SELECT format('%s of %s', p.oid::regprocedure, pg_get_userbyid(proowner)) INTO odd
      FROM (SELECT 'pg_class'::regclass, unnest(parts)
             UNION ALL
            SELECT 'pg_class'::regclass, indexrelid FROM pg_index WHERE indrelid = ANY (parts)
             UNION ALL
            SELECT 'pg_statistic_ext'::regclass, oid FROM pg_statistic_ext WHERE stxrelid = ANY (parts)) planned (class, id)
      JOIN pg_depend ON classid = class AND objid = id
      LEFT JOIN pg_operator o ON refclassid = 'pg_operator'::regclass AND o.oid = refobjid
      JOIN pg_proc p ON p.oid = CASE WHEN refclassid = 'pg_proc'::regclass THEN refobjid ELSE oprcode END
     WHERE NOT pg_has_role(proowner, current_user, 'MEMBER')
     LIMIT 1;
    IF FOUND THEN
        PERFORM door_refuse('invalid_request', format(
            'an index, statistics or partitions of %s use the function %s: it could run with the rights of %I as a snapshot is read',
            p_relid::regclass, odd, current_user));
    END IF;
END
$$;
