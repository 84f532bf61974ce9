-- PostgreSQL's functions on objects of JSON fail at a NUL (`\u0000`) in any string, and records may have one in `data` and `meta`. Returns
-- the JSON with another escape in place of the NUL, one that the text does not have, and this escape as `mark`. json_unshield puts the
-- NUL back. Both escapes have 6 characters, and every other byte stays the same. Without a NUL, `mark` is NULL.
--
-- A client can append a record with all escapes of one range. There are more of them, in small and large letters, than a record of 1 MiB has
-- room for. Surrogates, which begin with D, come in pairs. Raises an error if a longer text has all.
CREATE OR REPLACE FUNCTION json_shield(p_json text, OUT shielded json, OUT mark text)
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF strpos(p_json, '\u0000') > 0 THEN
        WITH digit AS (SELECT unnest(regexp_split_to_array('e0123456789abcfABCEFdD', '')) AS hex)
        SELECT '\u' || code INTO STRICT mark
          FROM digit a, digit b, digit c, digit d, concat(a.hex, b.hex, c.hex, d.hex) code
         WHERE a.hex NOT IN ('d', 'D') AND code NOT IN (SELECT used[1] FROM regexp_matches(p_json, '\\u([0-9a-fA-F]{4})', 'g') used)
         LIMIT 1;
        shielded := replace(p_json, '\u0000', mark);
    ELSE
        shielded := p_json;
    END IF;
END
$$;
