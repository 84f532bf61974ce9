-- A job that a worker process appends later, once or again and again (queues/due.py). The row is deleted with its topic.
CREATE TABLE queues_schedule (
    id       bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id bigint  NOT NULL,
    name     text    NOT NULL COLLATE "C",
    cron     text,               -- NULL: the schedule appends one job, and its row is deleted
    timezone text    NOT NULL,   -- of the cron line
    due_ts   bigint  NOT NULL,   -- of the next job
    try_ts   bigint  NOT NULL,   -- of the next attempt: due_ts, or later if the queue refused the job
    jobs     bigint  NOT NULL DEFAULT 0,  -- appended so far
    last_ts  bigint,             -- of the last job
    last_seq bigint,
    error    text,               -- of the last attempt, if the queue refused the job
    tag      text,
    node     text,
    meta     json,
    data     json    NOT NULL,
    not_before bigint,           -- as sent: the time of the job, or no job comes before it
    UNIQUE (topic_id, name)
);

-- A worker process finds the due schedules.
CREATE INDEX queues_schedule_by_try ON queues_schedule (try_ts);

-- The overview of the console finds schedules with a refused job.
CREATE INDEX queues_schedule_by_refusal ON queues_schedule (topic_id) WHERE error IS NOT NULL;
