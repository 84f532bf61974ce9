-- Raises `invalid_request` if the relay cannot send a snapshot of a table: it reads the rows with the rights of the owner of topics, in
-- the order of the key. The relay asks again before each chunk, because the owner of the table can change it.
--
-- PostgreSQL runs functions of indexes, of statistics and of partitions while it plans a statement, and their owner can create an index
-- after this check and before the plan. So the owner itself has to be trusted.
CREATE OR REPLACE FUNCTION capture_check_snapshot(p_relid oid, p_key text[], p_columns text[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    missing text;
    parts   oid[];  -- the table, and its partitions
    odd     record; -- one of them
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
    SELECT oid::regclass AS name INTO odd FROM pg_class WHERE oid = ANY (parts) AND relkind NOT IN ('r', 'p') LIMIT 1;
    IF FOUND THEN
        PERFORM door_refuse('invalid_request', format('%s is a view or a foreign table: a snapshot reads only tables', odd.name));
    END IF;
    SELECT oid::regclass AS name, pg_get_userbyid(relowner) AS owner INTO odd
      FROM pg_class
     WHERE oid = ANY (parts) AND NOT pg_has_role(relowner, current_user, 'MEMBER')
       AND pg_has_role(relowner, to_regrole('topics_snapshot'), 'MEMBER') IS NOT TRUE
     LIMIT 1;
    IF FOUND THEN
        PERFORM door_refuse('invalid_request', format(
            'functions in an index of %s could run with the rights of %I as a snapshot is read: if you trust the owner of the table, run %sGRANT topics_snapshot TO %I',
            odd.name, current_user, CASE WHEN to_regrole('topics_snapshot') IS NULL THEN 'CREATE ROLE topics_snapshot NOLOGIN; ' ELSE '' END, odd.owner));
    END IF;
END
$$;
