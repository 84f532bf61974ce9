-- outbox_emitted for topics.emit, because its caller can have any search_path.
CREATE OR REPLACE VIEW topics.emitted AS SELECT * FROM outbox_emitted;
COMMENT ON VIEW topics.emitted IS 'Internal.';
