-- Returns a record as JSON for an answer (docs/wire.md). Fields without a value are left out. data and meta keep the text that was
-- sent. The body is one expression, so that PostgreSQL inlines it.
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
