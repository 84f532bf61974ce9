-- The one hot row of a queue. The first claim creates the row. It is in the same kind of partition as the leases of the queue: if a
-- crash of PostgreSQL deletes the leases, it deletes this row, too. Its lock guards the leases (queue_lock).
CREATE TABLE queues_queue (
    topic_id  bigint  NOT NULL,
    durable   boolean NOT NULL,
    next_seq  bigint  NOT NULL,  -- no job above this seq was ever claimed
    floor_seq bigint  NOT NULL,  -- no lease is at or below this seq
    in_flight bigint  NOT NULL,  -- leases with a node and a deadline above swept_ts
    delayed   bigint  NOT NULL,  -- leases without a node and with a deadline above swept_ts
    low_ts    bigint  NOT NULL,  -- no lease has a lower deadline. A claim need not pass the index entries of old leases
    swept_ts  bigint  NOT NULL,
    era       bigint  NOT NULL DEFAULT 0,  -- as that of a head (topic_era), but 256 ms are one era: topic_era(swept_ts)
    PRIMARY KEY (topic_id, era, durable)
) PARTITION BY LIST (durable);

-- The space that each page keeps free makes every update within an era a HOT update.
CREATE TABLE queues_queue_logged PARTITION OF queues_queue FOR VALUES IN (true)
    WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE UNLOGGED TABLE queues_queue_unlogged PARTITION OF queues_queue FOR VALUES IN (false)
    WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
