-- Finds the captured tables again: a rename or another owner changes the name in the capture, and a restore of the database
-- gives the table another oid. A capture that another transaction ends is left out, because the relay would wait for that transaction.
CREATE OR REPLACE FUNCTION capture_tend() RETURNS void
LANGUAGE sql AS $$
    UPDATE outbox_capture known SET relid = found.oid, named = found.named, owner = found.owner
      FROM (SELECT known.id, told.*
              FROM outbox_capture known, pg_class c JOIN pg_namespace n ON n.oid = relnamespace,
                   LATERAL (VALUES (c.oid, nspname || '.' || relname, pg_get_userbyid(relowner)::text)) AS told (oid, named, owner)
             WHERE (c.oid = known.relid AND capture_has_trigger(c.oid, known.id)
                    OR c.oid IN (SELECT tgrelid FROM pg_trigger WHERE tgname = 'topics_capture_insert'
                                                                AND tgargs = convert_to(known.id::text, 'UTF8') || decode('00', 'hex'))
                       AND capture_has_trigger(c.oid, known.id) AND capture_is_restored(known, c.oid))
               AND (known.relid, known.named, known.owner) IS DISTINCT FROM (told.oid, told.named, told.owner)
               FOR NO KEY UPDATE OF known SKIP LOCKED) found
     WHERE known.id = found.id
$$;
