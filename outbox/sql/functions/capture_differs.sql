-- Returns the SQL of whether a column has another value in the row `a` than in the row `b`. The bytes count, because 1.0 and 1.00 are
-- equal and yet not the same. Most types are compared in a faster way, which has the same answer.
CREATE OR REPLACE FUNCTION capture_differs(p_name text, p_kind text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT format(CASE WHEN p_kind IN ('plain', 'exact') THEN 'b.%1$I IS DISTINCT FROM a.%1$I'
                       WHEN p_kind = 'numeric' THEN 'b.%1$I IS DISTINCT FROM a.%1$I OR scale(b.%1$I) IS DISTINCT FROM scale(a.%1$I)'
                       WHEN p_kind = 'text' THEN 'b.%1$I COLLATE "C" IS DISTINCT FROM a.%1$I COLLATE "C"'
                       ELSE 'ROW(b.%1$I)::record *<> ROW(a.%1$I)::record' END,
                  p_name)
$$;
