-- The log of calls, one row for each, kept for PUSH_LOG_DAYS. A row without a message is a loss: records that no call can send,
-- because the topic lost them first.
CREATE TABLE push_webhooklog (
    id         bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook_id bigint   NOT NULL,
    ts         bigint   NOT NULL,
    topic      text     NOT NULL COLLATE "C",
    first_seq  bigint   NOT NULL,
    last_seq   bigint   NOT NULL,
    records    integer  NOT NULL,
    message    text     NOT NULL,
    attempt    integer  NOT NULL,
    state      text     NOT NULL,  -- delivered, failed, dead, skipped, lost
    status     integer,
    ms         integer  NOT NULL,
    error      text,
    answer     text,
    next_ts    bigint,             -- of the next attempt
    seqs       bigint[]            -- of the records. NULL: all from first_seq to last_seq
);

-- A page of the log, and a page of what went wrong.
CREATE INDEX push_webhooklog_page ON push_webhooklog (webhook_id, id);
CREATE INDEX push_webhooklog_state ON push_webhooklog (webhook_id, state, id) WHERE state <> 'delivered';
-- The calls with a record.
CREATE INDEX push_webhooklog_record ON push_webhooklog (webhook_id, topic, last_seq);
