-- Returns a claimed job as JSON for an answer (docs/wire.md). meta and data keep the text that was sent. The body is one expression,
-- so that PostgreSQL inlines it.
CREATE OR REPLACE FUNCTION job_json(
    seq bigint, id uuid, deadline bigint, ts bigint, tag text, deliveries integer, meta text, data json
) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT '{"$seq":' || seq || ',"lease_id":"lease_' || id || '","deadline":' || deadline || ',"$ts":' || ts
        || CASE WHEN tag IS NULL THEN '' ELSE ',"$tag":' || to_json(tag) END
        || ',"deliveries":' || deliveries
        || CASE WHEN meta IS NULL THEN '' ELSE ',"meta":' || meta END
        || ',"data":' || data || '}'
$$;
