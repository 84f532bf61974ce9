-- The space that each page keeps free makes every append a HOT update.
ALTER TABLE topics_topichead SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
