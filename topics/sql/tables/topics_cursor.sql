-- The space that each page keeps free makes every update of a cursor a HOT update.
ALTER TABLE topics_cursor SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
