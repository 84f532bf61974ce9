-- Returns the SQL of arguments of concat for these parts, each the SQL of a value or two. A call of concat takes 100 values, so many parts
-- are calls of their own.
CREATE OR REPLACE FUNCTION capture_joined(p_parts text[]) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN cardinality(p_parts) <= 30 THEN array_to_string(p_parts, ', ')
                ELSE (SELECT string_agg(format('concat(%s)', array_to_string(p_parts[first:first + 44], ', ')), ', ' ORDER BY first)
                        FROM generate_series(1, cardinality(p_parts), 45) first) END
$$;
