-- It runs with the rights of its caller, who must own the table: PostgreSQL then lets this login create the triggers. Transition tables
-- need a trigger for each kind of statement.
CREATE OR REPLACE FUNCTION topics.capture(
    relation regclass, topic text, key text DEFAULT NULL, columns text DEFAULT NULL, snapshot boolean DEFAULT false, on_error text DEFAULT 'skip'
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    id   bigint;
    each record;
BEGIN
    id := topics.capture_note(capture.relation, capture.topic, capture.key, capture.columns, coalesce(capture.snapshot, false), capture.on_error);
    FOR each IN
        SELECT * FROM (VALUES ('insert', 'REFERENCING NEW TABLE AS rows_after'), ('delete', 'REFERENCING OLD TABLE AS rows_before'),
                              ('update', 'REFERENCING OLD TABLE AS rows_before NEW TABLE AS rows_after'), ('truncate', ''))
                      AS kind (op, tables)
    LOOP
        EXECUTE pg_catalog.format('CREATE TRIGGER topics_capture_%s AFTER %1$s ON %s %s FOR EACH STATEMENT EXECUTE FUNCTION topics.capture_changes(%L)',
                                  each.op, capture.relation, each.tables, id);
    END LOOP;
END
$$;
COMMENT ON FUNCTION topics.capture IS
'Sends each change of a table to a topic, from the commit of this call on, in the transaction of the change. Only the owner of the table can call it. key: the columns of a unique index, with commas between them (default: the primary key). columns: those to send, and the key (default: all). snapshot: whether to send the rows that exist, too. on_error: skip makes a tombstone of a change that cannot be captured, fail makes the statement of the application fail.';
