-- A record that a webhook gave up after its last attempt, until it is delivered by a replay, kept for PUSH_LOG_DAYS. The log cannot
-- tell: a call has records of which some are given up and others wait.
CREATE TABLE push_webhookfailed (
    webhook_id bigint   NOT NULL REFERENCES push_webhook ON DELETE CASCADE,
    topic_id   bigint   NOT NULL,
    seq        bigint   NOT NULL,
    ts         bigint   NOT NULL,  -- of the last attempt
    PRIMARY KEY (webhook_id, topic_id, seq)
);

-- Finds the old ones.
CREATE INDEX push_webhookfailed_ts ON push_webhookfailed (ts);

-- Finds the latest ones of a webhook.
CREATE INDEX push_webhookfailed_by_webhook ON push_webhookfailed (webhook_id, ts);
