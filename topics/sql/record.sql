-- Records, stored once under their home topic. `data` and `meta` are json, not jsonb: the text as it was sent.
-- Volatile records (durability memory and ephemeral) lie in an UNLOGGED partition: no WAL, emptied by a crash.
-- seq is unique in a topic because the head row hands it out; the primary key would turn any mistake into an error.
CREATE TABLE topics_record (
    topic_id bigint  NOT NULL,
    seq      bigint  NOT NULL,
    ts       bigint  NOT NULL,
    total    bigint  NOT NULL,                -- running bytes of the topic's own appends, this record included
    size     integer NOT NULL,                -- bytes of data and meta
    deleted  boolean NOT NULL DEFAULT false,  -- by tag; the row goes once no span shows it
    volatile boolean NOT NULL DEFAULT false,
    node     text    COLLATE "C",
    tag      text    COLLATE "C",
    meta     json,
    data     json    NOT NULL,
    PRIMARY KEY (topic_id, seq, volatile)
) PARTITION BY LIST (volatile);

CREATE TABLE topics_record_logged PARTITION OF topics_record FOR VALUES IN (false);
CREATE UNLOGGED TABLE topics_record_volatile PARTITION OF topics_record FOR VALUES IN (true);

-- Deletes by tag, of one topic.
CREATE INDEX topics_record_by_tag ON topics_record (topic_id, tag, seq) WHERE tag IS NOT NULL;
-- What reclaim may take above a floor.
CREATE INDEX topics_record_deleted ON topics_record (topic_id, seq) WHERE deleted;

-- Appends in order: pages fill up, and the visibility map and planner statistics follow at 2% growth, not 20%.
ALTER TABLE topics_record_logged SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);

-- HOT updates need room on the page.
ALTER TABLE topics_topichead SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER TABLE topics_cursor SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- One row that a crash takes away with the volatile records: how a process sees that they are gone (topics_recover.sql).
CREATE UNLOGGED TABLE topics_survived (alive boolean PRIMARY KEY);
INSERT INTO topics_survived VALUES (true);
