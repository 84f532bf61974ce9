-- Returns the SQL of the entries that tell a change of a captured table: rows (place, entry). An entry is the JSON `[tag, data]`, or
-- `[null, reason]` for a record that cannot be captured (outbox/packs.py). p_op: INSERT, UPDATE or DELETE with the transition tables
-- rows_before and rows_after, or READ with rows of the table itself as rows_after, for a snapshot.
--
-- If an UPDATE changes a key, the row has two entries: a delete of the old key and an insert of the new one. PostgreSQL checks the unique
-- index at each row, so such pairs in the order of rows are a history that a reader can follow. Both transition tables have this order, and
-- capture_changes refuses those that differ in the number of rows.
CREATE OR REPLACE FUNCTION capture_sql(known outbox_capture, p_relid oid, p_op text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    limits  door_limits;
    before  record;  -- the SQL of the tag and of the row, in rows_before
    behind  record;
    changed record;  -- the SQL of the old values that changed, each with a comma in front, and of whether the key changed
    checks  text;    -- the SQL of an entry, or of the reason against it
    number  text := 'number';  -- of a row: a name that no column of the table has
BEGIN
    SELECT * INTO limits FROM door_limits;
    SELECT * INTO before FROM capture_row(known, p_relid, 'b');
    SELECT * INTO behind FROM capture_row(known, p_relid, 'a');
    SELECT capture_joined(array_agg(format('CASE WHEN %s THEN concat(%L, %s) END', capture_differs(name, kind), ',' || to_json(name) || ':',
                                           capture_value('b', name, kind, is_filled)))) AS old,
           string_agg(capture_differs(name, kind), ' OR ') FILTER (WHERE key_place > 0) AS key,
           bool_or(kind = 'json') AS has_json
      INTO changed
      FROM capture_columns(p_relid, known.key, known.columns);
    -- The bound leaves 512 bytes of a record to its meta.
    checks := 'CASE WHEN octet_length(%1$s) > ' || limits.record_bytes - 512
              || CASE WHEN changed.has_json THEN ' OR capture_is_odd(%1$s)' ELSE '' END  -- before ->>, which fails at such JSON
              || CASE WHEN before.is_short THEN '' ELSE format(' OR octet_length(%%1$s::json ->> 0) > %s', limits.tag_bytes) END
              || format(' THEN capture_refused(%%1$s, %s, %L) ELSE %%1$s END', limits.record_bytes - 512, known.fails AND p_op <> 'READ');
    IF p_op = 'DELETE' THEN
        RETURN format('SELECT place, %s AS entry FROM (SELECT row_number() OVER () AS place, '
                      'concat(''['', %s, '',{"op":"delete","old":'', %s, ''}]'') AS entry FROM rows_before b OFFSET 0) told',
                      format(checks, 'entry'), before.tag, before.whole);
    ELSIF p_op <> 'UPDATE' THEN
        RETURN format('SELECT place, %s AS entry FROM (SELECT row_number() OVER () AS place, '
                      'concat(''['', %s, '',{"op":"%s","new":'', %s, ''}]'') AS entry FROM rows_after a OFFSET 0) told',
                      format(checks, 'entry'), behind.tag, lower(p_op), behind.whole);
    END IF;
    WHILE EXISTS (SELECT FROM pg_attribute WHERE attrelid = p_relid AND attname = number) LOOP
        number := number || '$';
    END LOOP;
    RETURN format(
        'SELECT place, CASE WHEN other IS NULL THEN %1$s ELSE concat(%1$s, '','', %2$s) END AS entry FROM ('
        'SELECT b.%9$I AS place, '
        'CASE WHEN %3$s THEN concat(''['', %4$s, '',{"op":"delete","old":'', %5$s, ''}]'') '
        'ELSE concat(''['', %6$s, '',{"op":"update","old":{'', substr(change.old, 2), ''},"new":'', %7$s, ''}]'') END AS entry, '
        'CASE WHEN %3$s THEN concat(''['', %6$s, '',{"op":"insert","new":'', %7$s, ''}]'') END AS other '
        'FROM (SELECT row_number() OVER () AS %9$I, * FROM rows_before) b '
        'JOIN (SELECT row_number() OVER () AS %9$I, * FROM rows_after) a ON a.%9$I = b.%9$I '
        'CROSS JOIN LATERAL (SELECT concat(%8$s) AS old OFFSET 0) change '
        'WHERE change.old <> '''' OFFSET 0) told',
        format(checks, 'entry'), format(checks, 'other'), changed.key, before.tag, before.whole, behind.tag, behind.whole, changed.old,
        number);
END
$$;
