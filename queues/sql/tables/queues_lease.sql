-- A row for each job that a node holds, or that came back and waits. A job without a row was never claimed, or is done. Leases of
-- a queue with `leases_durable: false` are in the UNLOGGED partition: a crash of PostgreSQL deletes them, and all jobs are ready.
-- The lock of the queue's row (queues_queue) guards the leases of its topic.
CREATE TABLE queues_lease (
    topic_id   bigint  NOT NULL,
    seq        bigint  NOT NULL,
    durable    boolean NOT NULL,
    node       text    COLLATE "C",  -- the holder. NULL: a holder gave the job back
    id         uuid,                 -- of this delivery. A later delivery of the job has another id
    deadline   bigint  NOT NULL,     -- another node can claim the job from this time on
    deliveries integer NOT NULL,
    claimed_ts bigint,               -- of the last claim
    error      text,                 -- the last error that a holder sent when it gave the job back
    PRIMARY KEY (topic_id, seq, durable)
) PARTITION BY LIST (durable);

CREATE TABLE queues_lease_logged PARTITION OF queues_lease FOR VALUES IN (true)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE UNLOGGED TABLE queues_lease_unlogged PARTITION OF queues_lease FOR VALUES IN (false)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- A claim finds the leases that ended by this index, in order. A statement that names jobs must use the primary key, because this index
-- would lead it through every lease of the queue. After a VACUUM that found no lease, PostgreSQL believes that both indexes are empty,
-- and could take either. So only a statement about deadlines says `topic_id + 0` and `seq + 0`. A statement that names jobs compares
-- `deadline` in a FILTER, or with a volatile function, because an index can serve neither.
CREATE INDEX queues_lease_by_deadline ON queues_lease ((topic_id + 0), deadline, (seq + 0));
