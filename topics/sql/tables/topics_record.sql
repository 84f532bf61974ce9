-- Each record is stored once, under its home topic. `data` and `meta` are json, not jsonb: reads return the text that was sent.
-- Volatile records (durability memory and ephemeral) are in an UNLOGGED partition: they write no WAL, and a crash deletes them.
-- The head row gives out each seq of a topic once. If it did not, the primary key would raise an error.
CREATE TABLE topics_record (
    topic_id bigint  NOT NULL,
    seq      bigint  NOT NULL,
    ts       bigint  NOT NULL,
    total    bigint  NOT NULL,                -- bytes of all appends to the topic so far, with this record
    size     integer NOT NULL,                -- bytes of data and meta
    deleted  boolean NOT NULL DEFAULT false,  -- by tag or seq. Reclaim deletes the row after no span shows it
    volatile boolean NOT NULL DEFAULT false,
    node     text    COLLATE "C",
    tag      text    COLLATE "C",
    meta     json,
    data     json    NOT NULL,
    PRIMARY KEY (topic_id, seq, volatile)
) PARTITION BY LIST (volatile);

CREATE TABLE topics_record_logged PARTITION OF topics_record FOR VALUES IN (false);
CREATE UNLOGGED TABLE topics_record_volatile PARTITION OF topics_record FOR VALUES IN (true);

-- Deletes by tag find the records of one topic.
CREATE INDEX topics_record_by_tag ON topics_record (topic_id, tag, seq) WHERE tag IS NOT NULL;
-- Reclaim finds the deleted records above a floor.
CREATE INDEX topics_record_deleted ON topics_record (topic_id, seq) WHERE deleted;

-- Appends come in order, so pages fill up. The visibility map and the planner's statistics are renewed at 2 % growth, not 20 %.
ALTER TABLE topics_record_logged SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);
