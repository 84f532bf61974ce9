-- A topic that cannot take its next emitted record, and why: `code` and `message` are those of the error over HTTP. Its records wait
-- in outbox_waiting, and the relay tries again at `next_ts`. The relay alone writes rows, and deletes them with the last record that
-- waits. `skip` and `retry` lock the row, so that they take turns with the relay.
CREATE TABLE outbox_stopped (
    topic    text   COLLATE "C" PRIMARY KEY,
    code     text   NOT NULL,
    message  text   NOT NULL,
    since_ts bigint NOT NULL,
    next_ts  bigint NOT NULL
);
