-- Finds the captured tables again: a rename or another owner changes the name in the capture, and a restore of the database
-- gives the table another oid.
CREATE OR REPLACE FUNCTION capture_tend() RETURNS void
LANGUAGE sql AS $$
    UPDATE outbox_capture known SET relid = found.oid, named = found.named, owner = found.owner
      FROM (SELECT c.oid, nspname || '.' || relname AS named, pg_get_userbyid(relowner) AS owner, known.id
              FROM outbox_capture known, pg_class c JOIN pg_namespace n ON n.oid = relnamespace
             WHERE c.oid = known.relid AND capture_has_trigger(c.oid, known.id)
                OR c.oid IN (SELECT tgrelid FROM pg_trigger WHERE tgname = 'topics_capture_insert' AND encode(tgargs, 'escape') = known.id || '\000')
                   AND capture_has_trigger(c.oid, known.id) AND capture_is_restored(known, c.oid)) found
     WHERE known.id = found.id AND (known.relid, known.named, known.owner) IS DISTINCT FROM (found.oid, found.named, found.owner)
$$;
