"""Webhooks, the records that wait for another call, and the log of calls."""

from django.db import migrations, models

WAITING = """
CREATE TABLE push_webhookwaiting (
    webhook_id bigint   NOT NULL REFERENCES push_webhook ON DELETE CASCADE,
    topic_id   bigint   NOT NULL,
    seq        bigint   NOT NULL,
    topic      text     NOT NULL COLLATE "C",
    line       text     COLLATE "C",
    attempts   integer  NOT NULL,
    first_ts   bigint   NOT NULL,
    next_ts    bigint,
    status     integer,
    error      text,
    PRIMARY KEY (webhook_id, topic_id, seq)
);
CREATE INDEX push_webhookwaiting_due ON push_webhookwaiting (webhook_id, next_ts) WHERE next_ts IS NOT NULL;
CREATE INDEX push_webhookwaiting_line ON push_webhookwaiting (webhook_id, topic_id, line, seq) WHERE line IS NOT NULL;
"""
LOG = """
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
    state      text     NOT NULL,
    status     integer,
    ms         integer  NOT NULL,
    error      text,
    answer     text,
    next_ts    bigint
);
CREATE INDEX push_webhooklog_page ON push_webhooklog (webhook_id, id);
CREATE INDEX push_webhooklog_state ON push_webhooklog (webhook_id, state, id) WHERE state <> 'delivered';
CREATE INDEX push_webhooklog_record ON push_webhooklog (webhook_id, topic, last_seq);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("push", "0003_objects"),
    ]

    operations = [
        migrations.CreateModel(
            name="Webhook",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(db_collation="C", max_length=255, unique=True)),
                ("prefixes", models.TextField(blank=True, db_default="", default="")),
                ("url", models.TextField()),
                ("config", models.JSONField()),
                ("secret", models.TextField()),
                ("previous_secret", models.TextField(blank=True, null=True)),
                ("previous_until_ts", models.BigIntegerField(db_default=0, default=0)),
                ("created_ts", models.BigIntegerField()),
                ("updated_ts", models.BigIntegerField()),
                ("paused", models.BooleanField(db_default=False, default=False)),
                ("pause_reason", models.TextField(blank=True, null=True)),
                ("failures", models.IntegerField(db_default=0, default=0)),
                ("retry_ts", models.BigIntegerField(db_default=0, default=0)),
                ("last_error", models.TextField(blank=True, null=True)),
                ("last_success_ts", models.BigIntegerField(blank=True, null=True)),
                ("delivered_total", models.BigIntegerField(db_default=0, default=0)),
                ("dead_total", models.BigIntegerField(db_default=0, default=0)),
                ("calls_total", models.BigIntegerField(db_default=0, default=0)),
                ("failed_total", models.BigIntegerField(db_default=0, default=0)),
                ("ms_total", models.BigIntegerField(db_default=0, default=0)),
                ("lease", models.BigIntegerField(db_default=0, default=0)),
                ("settled", models.BigIntegerField(db_default=0, default=0)),
                ("leased_until_ts", models.BigIntegerField(db_default=0, default=0)),
                ("halted_until_ts", models.BigIntegerField(db_default=0, default=0)),
            ],
        ),
        migrations.RunSQL(WAITING, "DROP TABLE push_webhookwaiting"),
        migrations.RunSQL(LOG, "DROP TABLE push_webhooklog"),
    ]
