-- Returns the SQL of a column's value as JSON, for concat. `p_row` is the alias of its row.
--
-- A value of PostgreSQL's own types is as in to_json. Any other, such as one of an extension, is a string with PostgreSQL's text of it,
-- because to_json could call a function of the owner of the type with the rights of the owner of topics.
CREATE OR REPLACE FUNCTION capture_value(p_row text, p_name text, p_kind text, is_filled boolean) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT format(CASE WHEN is_filled AND p_kind = 'plain' THEN '%1$s.%2$I'
                       WHEN p_kind = 'plain' THEN 'coalesce(%1$s.%2$I::text, ''null'')'
                       WHEN is_filled AND p_kind <> 'other' THEN 'to_json(%1$s.%2$I)'
                       WHEN p_kind = 'other' THEN 'coalesce(to_json(CASE WHEN num_nulls(%1$s.%2$I) = 0 THEN concat(%1$s.%2$I) END), ''null'')'
                       ELSE 'coalesce(to_json(%1$s.%2$I), ''null'')' END,
                  p_row, p_name)
$$;
