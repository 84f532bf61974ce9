-- A schedule whose only job has come, for 7 days (queues/due.py): a PUT that repeats its creation gives no second job. The row is
-- deleted with its topic, and by the next PUT or DELETE of the name.
CREATE TABLE queues_done (
    topic_id   bigint NOT NULL,
    name       text   NOT NULL COLLATE "C",
    not_before bigint NOT NULL,  -- as sent
    digest     bytea  NOT NULL,  -- of the record of the job (topics/append/records.py)
    ts         bigint NOT NULL,  -- of the job
    seq        bigint NOT NULL,
    PRIMARY KEY (topic_id, name)
);

-- A worker process finds the rows that are too old.
CREATE INDEX queues_done_by_ts ON queues_done (ts);
