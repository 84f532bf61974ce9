-- It runs with the rights of its caller, who must own the table, as topics.capture does. For a table that does not exist any more, the name is
-- the one in topics.captures.
CREATE OR REPLACE FUNCTION topics.uncapture(relation text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    found regclass := pg_catalog.to_regclass(uncapture.relation);
    op    text;
BEGIN
    PERFORM topics.capture_forget(found, uncapture.relation);
    IF found IS NOT NULL THEN
        FOREACH op IN ARRAY ARRAY['insert', 'update', 'delete', 'truncate'] LOOP
            EXECUTE pg_catalog.format('DROP TRIGGER IF EXISTS topics_capture_%s ON %s', op, found);
        END LOOP;
    END IF;
END
$$;
COMMENT ON FUNCTION topics.uncapture IS
'Ends the capture of a table. Changes that are captured already still arrive. Only the owner of the table can call it.';
