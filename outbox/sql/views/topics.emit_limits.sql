-- The bounds of a record. topics.emit needs them in this schema, because its caller can have any search_path. `has_rights`: whether the rights of any login
-- are limited. Otherwise emit need not ask for those of its own (topics.emit_may), which takes as long as the rest of it.
CREATE OR REPLACE VIEW topics.emit_limits AS
SELECT record_bytes, tag_bytes, node_bytes, meta_bytes, meta_keys, EXISTS (SELECT FROM door_right) AS has_rights FROM door_limits;
COMMENT ON VIEW topics.emit_limits IS 'Internal.';
