-- Returns the next rows of a snapshot in the order of the key, about p_bytes at most: the entries of a pack (capture_sql), and the key
-- of each row. No row: the snapshot is complete. The caller has locked the table, whose name it found by the oid.
--
-- The caller has the rights of the owner of topics, and the table can be another's, whom an operator trusts (capture_check_snapshot). Still
-- none of its functions runs for a key: a key of a domain is a value of the base type, because a cast to the domain would run its CHECK, and
-- concat asks for no cast to text.
CREATE OR REPLACE FUNCTION capture_chunk(p_id bigint, p_rows int, p_bytes bigint) RETURNS TABLE (entry text, reached text[])
LANGUAGE plpgsql STABLE
SET timezone = 'UTC' SET datestyle = 'ISO' SET intervalstyle = 'iso_8601' SET bytea_output = 'hex' SET extra_float_digits = 1 SET row_security = off
SET constraint_exclusion = off
AS $$
#variable_conflict use_column
DECLARE
    known outbox_capture;
    whole text;
    names text;
    texts text;
    start text;
    sent  bigint := 0;
BEGIN
    SELECT * INTO known FROM outbox_capture WHERE id = p_id;
    PERFORM capture_check_snapshot(known.relid, known.key, known.columns);
    SELECT string_agg(format('%I', name), ', '),
           string_agg(format('%I', name), ', ' ORDER BY key_place) FILTER (WHERE key_place > 0),
           string_agg(format('concat(%I)', name), ', ' ORDER BY key_place) FILTER (WHERE key_place > 0),
           string_agg(format('%L::%s', known.after[key_place], type), ', ' ORDER BY key_place) FILTER (WHERE key_place > 0)
      INTO whole, names, texts, start
      FROM capture_columns(known.relid, known.key, known.columns);
    -- The entries come in the order of the rows, so each has the key at the same place. No other column is read, because PostgreSQL
    -- would compute the virtual generated ones, and their expression can fail.
    FOR entry, reached IN EXECUTE format(
        'WITH rows_after AS MATERIALIZED (SELECT %s FROM %s%s ORDER BY %s LIMIT %s), '
        'keys AS (SELECT ARRAY[%s] AS reached, row_number() OVER () AS place FROM rows_after) '
        'SELECT told.entry, keys.reached FROM (%s) told JOIN keys ON keys.place = told.place ORDER BY told.place',
        whole, known.relid::regclass, CASE WHEN known.after IS NOT NULL THEN format(' WHERE (%s) > (%s)', names, start) ELSE '' END, names,
        p_rows, texts, capture_sql(known, known.relid, 'READ'))
    LOOP
        RETURN NEXT;
        sent := sent + octet_length(entry);
        EXIT WHEN sent > p_bytes;
    END LOOP;
END
$$;
