-- The space that each page keeps free makes every save of a session a HOT update.
ALTER TABLE topics_watchsession SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
