-- A record as the wire shows it (contract.md section 1): absent fields are absent, data and meta stand as they were written.
-- One expression, so that PostgreSQL puts it in line.
CREATE OR REPLACE FUNCTION record_json(
    seq bigint, ts bigint, node text, tag text, meta text, data json, with_tags boolean, with_meta boolean
) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT '{"$seq":' || seq || ',"$ts":' || ts
        || CASE WHEN node IS NULL THEN '' ELSE ',"$node":' || to_json(node) END
        || CASE WHEN with_tags AND tag IS NOT NULL THEN ',"$tag":' || to_json(tag) ELSE '' END
        || CASE WHEN with_meta AND meta IS NOT NULL THEN ',"meta":' || meta ELSE '' END
        || ',"data":' || data || '}'
$$;
