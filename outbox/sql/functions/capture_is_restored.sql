-- Returns whether a table with a trigger of a capture is the captured one under another oid, as after a restore of the database. A
-- login could give the trigger to a table of its own. So the captured table must not have the trigger any more, and the owner must be
-- the one who was allowed to capture it.
CREATE OR REPLACE FUNCTION capture_is_restored(known outbox_capture, p_relid oid) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT NOT capture_has_trigger(known.relid, known.id)
           AND EXISTS (SELECT FROM pg_class WHERE oid = p_relid AND pg_get_userbyid(relowner) = known.owner)
$$;
