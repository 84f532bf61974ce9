-- The part of topics.capture with the rights of the owner of topics: checks, notes the capture, and returns its id. A login can call it by
-- itself: then the capture has no triggers, and does nothing.
CREATE OR REPLACE FUNCTION topics.capture_note(
    relation oid, topic text, key text, columns text, snapshot boolean, on_error text
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    known  pg_class;
    keys   text[] := regexp_split_to_array(btrim(capture_note.key), '\s*,\s*');
    listed text[] := regexp_split_to_array(btrim(capture_note.columns), '\s*,\s*');
    found  text[];
    odd    text;  -- a column that no change can tell
    made   bigint;
    early  text;  -- the triggers of the table that run before ours
BEGIN
    PERFORM door_check(capture_note.topic, 'write');
    PERFORM door_name(capture_note.topic, 'topic');
    SELECT * INTO known FROM pg_class WHERE oid = capture_note.relation;
    IF NOT pg_has_role(session_user, known.relowner, 'MEMBER') THEN
        PERFORM door_refuse('forbidden', format('%L is not the owner of %s: only the owner can capture a table', session_user, known.oid::regclass));
    ELSIF known.relkind NOT IN ('r', 'p') OR known.relpersistence <> 'p' THEN
        PERFORM door_refuse('invalid_request', format('%s is no table with durable rows: expected a table that is neither temporary nor unlogged, and no view', known.oid::regclass));
    ELSIF known.relispartition OR EXISTS (SELECT FROM pg_inherits WHERE inhrelid = known.oid)
          OR known.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = known.oid) THEN
        PERFORM door_refuse('invalid_request', format('%s is a partition, or inherits: capture the partitioned table, whose triggers see its statements',
                                                      known.oid::regclass));
    ELSIF known.relnamespace = current_schema()::regnamespace
          AND known.relname ~ '^(topics|outbox|door|queues|groups|mirrors|routers|push|pipeline|console|store)_' THEN
        PERFORM door_refuse('invalid_request', format('%s is a table of topics', known.oid::regclass));
    ELSIF capture_note.topic LIKE 'bus:%' THEN
        PERFORM door_refuse('invalid_request', format('%L is a topic of the push bus, which takes events alone: name another topic', capture_note.topic));
    ELSIF capture_note.on_error IS NULL OR capture_note.on_error NOT IN ('skip', 'fail') THEN
        PERFORM door_refuse('invalid_request', format('invalid on_error %L: expected skip or fail', capture_note.on_error));
    ELSIF EXISTS (SELECT FROM outbox_capture WHERE relid = known.oid) THEN
        PERFORM door_refuse('invalid_request', format('%s is captured already: call topics.uncapture first', known.oid::regclass));
    END IF;
    SELECT attname INTO odd FROM pg_attribute WHERE attrelid = known.oid AND attname = ANY (keys || listed) AND attgenerated = 'v';
    IF odd IS NOT NULL THEN
        PERFORM door_refuse('invalid_request', format('%I of %s is a virtual generated column, whose values no trigger gets: make it STORED', odd,
                                                      known.oid::regclass));
    END IF;
    SELECT array_agg(name ORDER BY name) INTO found FROM capture_columns(known.oid, keys, listed) WHERE key_place > 0;
    IF NOT EXISTS (
        SELECT FROM pg_index
         WHERE indrelid = known.oid AND indisunique AND indimmediate AND indisvalid AND indpred IS NULL AND indexprs IS NULL
           AND found = (SELECT array_agg(attname::text ORDER BY attname::text COLLATE "default") FROM pg_attribute
                         WHERE attrelid = known.oid AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1]) HAVING bool_and(attnotnull))) THEN
        PERFORM door_refuse('invalid_request', format(
            'no unique index of %s has exactly the key (%s): expected columns that are NOT NULL, and an index that is not partial and not deferrable',
            known.oid::regclass, array_to_string(found, ', ')));
    ELSIF capture_note.snapshot THEN
        PERFORM capture_check_snapshot(known.oid, keys, listed);
    END IF;
    INSERT INTO outbox_capture (relid, named, owner, topic, key, columns, fails, snapshot)
    SELECT known.oid, nspname || '.' || known.relname, pg_get_userbyid(known.relowner), capture_note.topic, keys, listed,
           capture_note.on_error = 'fail', CASE WHEN capture_note.snapshot THEN 'running' ELSE 'none' END
      FROM pg_namespace n WHERE n.oid = known.relnamespace
    RETURNING id INTO made;
    -- The statement of a trigger ends, with its own capture, before the statement that fired it is captured. PostgreSQL runs the triggers
    -- of rows before those of statements, each kind in the order of names, and deferred ones at the commit.
    SELECT string_agg(quote_ident(tgname), ', ' ORDER BY tgname) INTO early
      FROM pg_trigger
     WHERE tgrelid IN (SELECT known.oid UNION ALL SELECT relid FROM pg_partition_tree(known.oid)) AND NOT tgisinternal AND tgparentid = 0
       AND tgtype & 2 = 0 AND NOT tginitdeferred AND (tgtype & 1 = 1 OR tgname < 'topics_capture_');  -- AFTER, and FOR EACH ROW
    IF early IS NOT NULL THEN
        RAISE WARNING 'what these triggers change in % arrives before the changes that fire them: %', known.oid::regclass, early
            USING HINT = 'Change rows of the same table in a trigger FOR EACH STATEMENT, with a name behind topics_capture.';
    END IF;
    RETURN made;
END
$$;
COMMENT ON FUNCTION topics.capture_note IS 'Internal.';
