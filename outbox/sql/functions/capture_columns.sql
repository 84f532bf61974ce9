-- Returns the captured columns of a table in their order, and the place of each in the key (NULL: it has none). `kind` says how
-- capture_value shows it, `is_filled` that it is never NULL. `type` is the SQL of its type, or of the base type of a domain. NULL: a
-- snapshot cannot have the order of the column. Raises an error if the table lacks a column or the key. Virtual generated columns are left
-- out, because the rows of a trigger have NULL in place of their values.
CREATE OR REPLACE FUNCTION capture_columns(p_relid oid, p_key text[], p_columns text[])
RETURNS TABLE (name text, key_place int, kind text, is_filled boolean, type text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    keys    text[] := p_key;
    missing text;
BEGIN
    IF keys IS NULL THEN
        SELECT array_agg(attname::text ORDER BY place) INTO keys
          FROM pg_index, unnest(indkey) WITH ORDINALITY AS part (attnum, place), pg_attribute a
         WHERE indrelid = p_relid AND indisprimary AND a.attrelid = p_relid AND a.attnum = part.attnum AND place <= indnkeyatts;
        IF keys IS NULL THEN
            PERFORM door_refuse('invalid_request', format('%s has no primary key: name the columns of another unique index as key', p_relid::regclass));
        END IF;
    END IF;
    SELECT wanted INTO missing FROM unnest(keys || p_columns) wanted
     WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = p_relid AND attname = wanted AND attnum > 0 AND NOT attisdropped);
    IF FOUND THEN
        PERFORM door_refuse('invalid_request', format('%s has no column %I: call topics.uncapture, and capture the table again', p_relid::regclass, missing));
    END IF;
    RETURN QUERY
    WITH RECURSIVE typed AS (
        SELECT attnum, attname, attnotnull, atttypid AS declared, atttypid AS id, atttypmod AS mod FROM pg_attribute
         WHERE attrelid = p_relid AND attnum > 0 AND NOT attisdropped AND attgenerated <> 'v'
           AND (p_columns IS NULL OR attname = ANY (p_columns) OR attname = ANY (keys))
         UNION ALL
        SELECT attnum, attname, attnotnull, declared, typbasetype, typtypmod FROM typed JOIN pg_type t ON t.oid = id WHERE typtype = 'd')
    SELECT attname::text, array_position(keys, attname::text),
           CASE WHEN id IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype) THEN 'plain'
                WHEN id IN ('text'::regtype, 'varchar'::regtype) THEN 'text'
                WHEN id = 'numeric'::regtype THEN 'numeric'
                WHEN id IN ('bool'::regtype, 'uuid'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype) THEN 'exact'
                WHEN id IN ('json'::regtype, 'jsonb'::regtype, 'json[]'::regtype, 'jsonb[]'::regtype) THEN 'json'
                WHEN id < 16384 THEN 'own'  -- of PostgreSQL
                ELSE 'other' END, attnotnull,
           CASE WHEN id < 16384 OR id = declared AND typtype = 'e' THEN format_type(id, mod) END
      FROM typed JOIN pg_type t ON t.oid = id
     WHERE typtype <> 'd'
     ORDER BY attnum;
END
$$;
