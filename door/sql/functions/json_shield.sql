-- PostgreSQL's functions on objects of JSON fail at a NUL (`\u0000`) in any string, and records may have one in `data` and `meta`. Returns
-- the JSON with another escape in place of the NUL, one that the text does not have, and this escape as `mark`. json_unshield puts the
-- NUL back. Both escapes have 6 characters, and every other byte stays the same. Without a NUL, `mark` is NULL.
CREATE OR REPLACE FUNCTION json_shield(p_json text, OUT shielded json, OUT mark text)
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF strpos(p_json, '\u0000') > 0 THEN
        SELECT '\u' || to_hex(code) INTO mark
          FROM generate_series(57344, 63743) code  -- for private use
         WHERE strpos(lower(p_json), '\u' || to_hex(code)) = 0
         LIMIT 1;
        shielded := replace(p_json, '\u0000', mark);
    ELSE
        shielded := p_json;
    END IF;
END
$$;
