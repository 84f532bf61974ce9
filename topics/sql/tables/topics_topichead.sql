-- The space that each page keeps free makes an append within an era a HOT update. The column unsettled, which has an index,
-- keeps its value while a topic is written.
ALTER TABLE topics_topichead SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
-- By this key a look-up finds the newest version of a head first (functions/topic_era.sql). A topic has one head: the statement that
-- inserts the topic inserts its head.
ALTER TABLE topics_topichead DROP CONSTRAINT topics_topichead_pkey, ADD PRIMARY KEY (topic_id, era);
