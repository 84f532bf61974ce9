-- Returns the SQL of arguments of concat for a row of a captured table, whose alias is p_row: the tag as JSON, and the row as JSON. The tag
-- is the key: its text, or an array of JSON if the key has several columns. is_short: every tag has less than 256 bytes.
CREATE OR REPLACE FUNCTION capture_row(known outbox_capture, p_relid oid, p_row text, OUT tag text, OUT whole text, OUT is_short boolean)
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN count(key_place) > 1
                THEN format('to_json(concat(''['', %s, '']''))', capture_joined(
                     array_agg(format(CASE WHEN key_place = 1 THEN '%s' ELSE ''','', %s' END, capture_value(p_row, name, kind, is_filled)) ORDER BY key_place)
                         FILTER (WHERE key_place > 0)))
                WHEN bool_or(kind = 'plain') FILTER (WHERE key_place = 1)
                THEN format('''"'', %s.%I, ''"''', p_row, min(name) FILTER (WHERE key_place = 1))
                ELSE format('to_json(concat(%s.%I))', p_row, min(name) FILTER (WHERE key_place = 1)) END,
           format('''{'', %s, ''}''', capture_joined(
               array_agg(format('%L, %s', CASE WHEN place > 1 THEN ',' ELSE '' END || to_json(name) || ':', capture_value(p_row, name, kind, is_filled))
                         ORDER BY place))),
           count(key_place) < 5 AND bool_and(kind IN ('plain', 'exact')) FILTER (WHERE key_place > 0)
      FROM capture_columns(p_relid, known.key, known.columns) WITH ORDINALITY AS c (name, key_place, kind, is_filled, type, place)
$$;
