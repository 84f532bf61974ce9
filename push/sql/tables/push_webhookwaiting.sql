-- A record that waits for another call of a webhook. The position of the webhook in the topic can be above it. A row with topic_id 0
-- is a test. Rows of a topic that was deleted end when they are due.
CREATE TABLE push_webhookwaiting (
    webhook_id bigint   NOT NULL REFERENCES push_webhook ON DELETE CASCADE,
    topic_id   bigint   NOT NULL,
    seq        bigint   NOT NULL,
    topic      text     NOT NULL COLLATE "C",
    line       text     COLLATE "C",  -- records of one line wait for each other: a tag, or '' for all of the topic. NULL: for none
    attempts   integer  NOT NULL,
    first_ts   bigint   NOT NULL,  -- of the first attempt. 0: none so far
    next_ts    bigint,             -- NULL: it waits behind an earlier record of its line
    status     integer,            -- of the last answer
    error      text,
    set_ts     bigint   NOT NULL DEFAULT 0,  -- when next_ts was set
    PRIMARY KEY (webhook_id, topic_id, seq)
);

-- Finds the records that are due.
CREATE INDEX push_webhookwaiting_due ON push_webhookwaiting (webhook_id, next_ts) WHERE next_ts IS NOT NULL;
-- Finds the first record of a line.
CREATE INDEX push_webhookwaiting_line ON push_webhookwaiting (webhook_id, topic_id, line, seq) WHERE line IS NOT NULL;
-- Finds records with a next_ts that a clock ahead has set.
CREATE INDEX push_webhookwaiting_set ON push_webhookwaiting (set_ts);
