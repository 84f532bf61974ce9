-- Returns the bytes of data and meta of a record, or NULL if the record is not valid at first sight: topics.emit_checked then looks again.
-- The planner puts the expression into the statement of topics.emit. Names and operators were found when the function was created.
CREATE OR REPLACE FUNCTION topics.emit_size(
    most_bytes bigint, most_tag bigint, most_node bigint, most_meta bigint, most_keys bigint,
    topic text, data json, tag text, node text, meta json, key text
) RETURNS int
LANGUAGE sql IMMUTABLE
RETURN CASE
    -- The bound {0,254} would make the pattern ten times as slow.
    WHEN topic COLLATE "C" ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$' AND length(topic) <= 255
     AND octet_length(data::text) + coalesce(octet_length(meta::text), 0) <= most_bytes
     AND (tag IS NULL OR octet_length(tag) <= most_tag) AND (node IS NULL OR octet_length(node) <= most_node)
     AND (key IS NULL OR length(key) BETWEEN 1 AND 256)
     -- Half of a surrogate pair is refused.
     AND strpos(data::text, '\ud') = 0 AND strpos(data::text, '\uD') = 0
     -- A value with so few bytes, or so few opening brackets, is not too deep (base/depth.py).
     AND (octet_length(data::text) <= 257
          OR octet_length(data::text) - octet_length(replace(replace(data::text, '[', ''), '{', '')) <= 128)
     -- A short object with few colons has few keys. The keys of servers (meta_owner) begin with $ or _, and a backslash
     -- could hide one.
     AND (meta IS NULL
          OR json_typeof(meta) = 'object' AND octet_length(meta::text) <= least(most_meta, 257)
             AND octet_length(meta::text) - octet_length(replace(meta::text, ':', '')) <= most_keys
             AND strpos(meta::text, '"$') = 0 AND strpos(meta::text, '"_') = 0 AND strpos(meta::text, '\') = 0)
    THEN octet_length(data::text) + coalesce(octet_length(meta::text), 0) END;
COMMENT ON FUNCTION topics.emit_size IS 'Internal.';
