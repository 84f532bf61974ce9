-- Tables of applications whose changes go to a topic (topics.capture). The triggers of a table have the `id` as their argument, because
-- a restore gives the table another `relid`. The relay then finds it again by its triggers (capture_tend). A captured change writes
-- nothing here, because it would wait for the changes of others.
CREATE TABLE outbox_capture (
    id          bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relid       oid     NOT NULL UNIQUE,
    named       text    NOT NULL,
    owner       text    NOT NULL,
    topic       text    COLLATE "C" NOT NULL,
    key         text[],                            -- NULL: the primary key, whichever columns it has
    columns     text[],                            -- NULL: all columns
    fails       boolean NOT NULL,                  -- on_error => 'fail'
    snapshot    text    NOT NULL,                  -- none, running, done
    after       text[],                            -- the key of the last row that the snapshot has sent
    snapshotted bigint  NOT NULL DEFAULT 0,        -- rows that the snapshot has sent
    changes     bigint  NOT NULL DEFAULT 0,        -- that the relay has moved
    lost        bigint  NOT NULL DEFAULT 0,        -- changes that could not be captured, and are a tombstone of the topic
    error       text,                              -- of the last loss, or of the snapshot
    error_ts    bigint
);
