-- The trigger of captured tables (topics.capture). It writes the changes of a statement into the outbox, many in a row (outbox/packs.py).
-- The row has the key '', which no emitted record can have.
--
-- It runs with the rights of its owner, so the logins that write the table need no right here. An error does not fail the statement of
-- the application, unless it was asked for: the lost changes become a tombstone at their place in the topic. If not even that loss can be
-- written, because the disk is full, the statement fails like any other write: a loss that nobody is told of would be worse.
--
-- PostgreSQL cannot estimate how many rows the transition tables join to, so the settings of the plan are here. A pack has up to 64
-- changes: a row of the outbox for each would take longer than all the rest.
CREATE OR REPLACE FUNCTION topics.capture_changes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET standard_conforming_strings = on SET timezone = 'UTC' SET datestyle = 'ISO' SET intervalstyle = 'iso_8601'
SET bytea_output = 'hex' SET extra_float_digits = 1 SET jit = off SET work_mem = '64MB' SET enable_mergejoin = off SET enable_nestloop = off
AS $$
DECLARE
    known    outbox_capture;
    meta     json;
    is_empty boolean := false;
    lost     bigint := 1;
    message  text;
BEGIN
    SELECT * INTO known FROM outbox_capture WHERE id = TG_ARGV[0]::bigint;
    IF known.id IS NULL OR known.relid <> TG_RELID AND NOT capture_is_restored(known, TG_RELID) THEN
        RETURN NULL;
    ELSIF TG_OP = 'INSERT' THEN
        is_empty := NOT EXISTS (SELECT FROM rows_after);
    ELSIF TG_OP <> 'TRUNCATE' THEN
        is_empty := NOT EXISTS (SELECT FROM rows_before);
    END IF;
    IF is_empty THEN
        RETURN NULL;
    END IF;
    BEGIN
        IF TG_OP = 'UPDATE' THEN
            IF (SELECT count(*) FROM rows_before) <> (SELECT count(*) FROM rows_after) THEN  -- capture_sql pairs them by their order
                PERFORM door_refuse('invalid_request', 'a trigger of a partition dropped a row that an UPDATE moved there, so no old row has a sure pair');
            END IF;
        END IF;
        meta := json_build_object('table', TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME, 'xid', pg_current_xact_id()::text::bigint);
        IF TG_OP = 'TRUNCATE' THEN
            INSERT INTO outbox_emitted (size, topic, key, data, meta)
            VALUES (50, known.topic, '', format('{"capture":%s,"changes":[[null,{"op":"truncate"}]]}', known.id)::json, meta);
        ELSE
            EXECUTE format(
                'INSERT INTO outbox_emitted (size, topic, key, data, meta) '
                'SELECT sum(octet_length(entry)), $1, '''', (''{"capture":%s,"changes":['' || string_agg(entry, '','' ORDER BY place) || '']}'')::json, $2 '
                'FROM (%s) told GROUP BY place / 64 ORDER BY place / 64', known.id, capture_sql(known, TG_RELID, TG_OP))
            USING known.topic, meta;
        END IF;
    EXCEPTION
        WHEN OTHERS THEN
            IF known.fails THEN
                RAISE;
            END IF;
            message := left(SQLERRM, 500);
    END;
    IF message IS NOT NULL THEN
        IF TG_OP = 'INSERT' THEN
            lost := (SELECT count(*) FROM rows_after);
        ELSIF TG_OP <> 'TRUNCATE' THEN
            lost := (SELECT count(*) FROM rows_before);
        END IF;
        INSERT INTO outbox_emitted (size, topic, key, data)
        VALUES (50, known.topic, '', json_build_object('capture', known.id, 'lost', lost, 'reason', message));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION topics.capture_changes IS 'Internal.';
