"""Creates the tables of the log."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

import topics.models
from base.refusal import Refusal

CURSOR = """
ALTER TABLE topics_cursor SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
"""
RECORD = """
CREATE TABLE topics_record (
    topic_id bigint  NOT NULL,
    seq      bigint  NOT NULL,
    ts       bigint  NOT NULL,
    total    bigint  NOT NULL,
    size     integer NOT NULL,
    deleted  boolean NOT NULL DEFAULT false,
    volatile boolean NOT NULL DEFAULT false,
    node     text    COLLATE "C",
    tag      text    COLLATE "C",
    meta     json,
    data     json    NOT NULL,
    PRIMARY KEY (topic_id, seq, volatile)
) PARTITION BY LIST (volatile);
CREATE TABLE topics_record_logged PARTITION OF topics_record FOR VALUES IN (false);
CREATE UNLOGGED TABLE topics_record_volatile PARTITION OF topics_record FOR VALUES IN (true);
CREATE INDEX topics_record_by_tag ON topics_record (topic_id, tag, seq) WHERE tag IS NOT NULL;
CREATE INDEX topics_record_deleted ON topics_record (topic_id, seq) WHERE deleted;
ALTER TABLE topics_record_logged SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);
"""
SPAN = """
CREATE INDEX topics_span_long ON topics_span (home_id, home_last_seq) WHERE home_last_seq - home_first_seq >= 1000;
"""
STREAMCOUNT = """
ALTER TABLE topics_streamcount SET UNLOGGED;
"""
SURVIVED = """
CREATE UNLOGGED TABLE topics_survived (alive boolean PRIMARY KEY);
INSERT INTO topics_survived VALUES (true);
"""
TOPICHEAD = """
ALTER TABLE topics_topichead SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
"""
WATCHSESSION = """
ALTER TABLE topics_watchsession SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
"""


def refuse_older(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Raises Refusal if a version before 0.2.0 made this database: no migration leads from there to here."""
    if "topics_topichead" in schema_editor.connection.introspection.table_names():
        raise Refusal(
            "a version before 0.2.0 made this database, and no later version can use it: "
            "export its records and start with a new one (docs/guides/upgrading.md, Databases from before 0.2.0)."
        )


class Migration(migrations.Migration):
    initial = True

    dependencies: list[tuple[str, str]] = []

    operations = [
        migrations.RunPython(refuse_older, migrations.RunPython.noop),
        migrations.CreateModel(
            name="Record",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "topic_id", "seq", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("topic_id", models.BigIntegerField()),
                ("seq", models.BigIntegerField()),
                ("ts", models.BigIntegerField()),
                ("total", models.BigIntegerField()),
                ("size", models.IntegerField()),
                ("deleted", models.BooleanField(default=False)),
                ("volatile", models.BooleanField(default=False)),
                ("node", models.TextField(null=True)),
                ("tag", models.TextField(null=True)),
                ("meta", topics.models.Verbatim(null=True)),
                ("data", topics.models.Verbatim()),
            ],
            options={
                "db_table": "topics_record",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=100)),
                ("secret_sha256", models.BinaryField(max_length=32, unique=True)),
                ("read", models.BooleanField(default=True)),
                ("write", models.BooleanField(default=False)),
                ("delete_scope", models.BooleanField(default=False, verbose_name="delete")),
                ("admin", models.BooleanField(default=False)),
                (
                    "prefixes",
                    models.TextField(blank=True, default="", help_text="One name prefix a line. Empty: every name."),
                ),
                ("created_ts", models.BigIntegerField()),
                ("last_used_ts", models.BigIntegerField(blank=True, null=True)),
                ("revoked_ts", models.BigIntegerField(blank=True, null=True)),
                ("expires_ts", models.BigIntegerField(blank=True, null=True)),
                ("previous_sha256", models.BinaryField(max_length=32, null=True, unique=True)),
                ("previous_until_ts", models.BigIntegerField(editable=False, null=True)),
            ],
            options={
                "verbose_name": "API key",
            },
        ),
        migrations.CreateModel(
            name="Topic",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(db_collation="C", max_length=255, unique=True)),
                ("type", models.CharField(choices=[("log", "Log"), ("queue", "Queue")], default="log", max_length=8)),
                ("ttl_ms", models.BigIntegerField(default=0)),
                ("cap_records", models.BigIntegerField(default=0)),
                ("cap_bytes", models.BigIntegerField(default=0)),
                (
                    "discard",
                    models.CharField(choices=[("old", "Old"), ("reject", "Reject")], default="old", max_length=8),
                ),
                (
                    "durability",
                    models.CharField(
                        choices=[
                            ("fsync", "Fsync"),
                            ("disk", "Disk"),
                            ("memory", "Memory"),
                            ("ephemeral", "Ephemeral"),
                        ],
                        default="disk",
                        max_length=12,
                    ),
                ),
                ("priority", models.IntegerField(blank=True, null=True)),
                ("auto_priority", models.BooleanField(default=True)),
                ("auto_create", models.BooleanField(default=True)),
                ("idempotency_window_ms", models.BigIntegerField(default=120000)),
                ("dedupe_node", models.BooleanField(default=True)),
                ("lease_ms", models.BigIntegerField(default=30000)),
                ("claim_jitter_ms", models.BigIntegerField(default=0)),
                ("max_deliveries", models.IntegerField(default=0)),
                ("dead_letter", models.CharField(blank=True, db_collation="C", max_length=255, null=True)),
                ("leases_durable", models.BooleanField(default=False)),
                ("created_ts", models.BigIntegerField()),
                ("sealed", models.BooleanField(db_default=False, default=False)),
            ],
        ),
        migrations.CreateModel(
            name="CrashLoss",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "topic_id", "last_seq", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("topic_id", models.BigIntegerField()),
                ("last_seq", models.BigIntegerField()),
                ("first_seq", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="DeletedTopic",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("name", models.CharField(db_collation="C", max_length=255)),
                ("deleted_ts", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="LastHead",
            fields=[
                ("name", models.CharField(db_collation="C", max_length=255, primary_key=True, serialize=False)),
                ("head_seq", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Reclaim",
            fields=[
                ("topic_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("next_seq", models.BigIntegerField(default=0)),
                ("reclaimed_records", models.BigIntegerField(default=0)),
                ("held_records", models.BigIntegerField(default=0)),
                ("updated_ts", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="StreamCount",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "process", "key_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("process", models.CharField(max_length=32)),
                ("key_id", models.CharField(max_length=100)),
                ("count", models.IntegerField()),
                ("seen_ts", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="WatchSession",
            fields=[
                ("wid", models.CharField(db_collation="C", max_length=64, primary_key=True, serialize=False)),
                ("key_id", models.CharField(max_length=100)),
                ("options", models.TextField()),
                ("spots", models.TextField()),
                ("stream", models.BigIntegerField(default=0)),
                ("open", models.BooleanField(default=False)),
                ("seen_ts", models.BigIntegerField()),
                ("created_ts", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("ts", models.BigIntegerField()),
                ("actor", models.CharField(max_length=100)),
                ("actor_name", models.CharField(blank=True, max_length=150)),
                ("origin", models.CharField(blank=True, max_length=64)),
                ("action", models.CharField(max_length=8)),
                ("kind", models.CharField(max_length=8)),
                ("name", models.CharField(db_collation="C", max_length=511)),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
            ],
            options={
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit log",
                "indexes": [
                    models.Index(fields=["ts"], name="topics_audit_by_age"),
                    models.Index(fields=["name"], name="topics_audit_by_name"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ClockStep",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="topics.topic",
                    ),
                ),
                ("upto_seq", models.BigIntegerField()),
                ("ts", models.BigIntegerField()),
                ("until_ts", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="TopicHead",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="head",
                        serialize=False,
                        to="topics.topic",
                    ),
                ),
                ("head_seq", models.BigIntegerField(default=0)),
                ("floor_seq", models.BigIntegerField(default=0)),
                ("cap_lost_seq", models.BigIntegerField(default=0)),
                ("ttl_lost_seq", models.BigIntegerField(default=0)),
                ("restart_lost_seq", models.BigIntegerField(default=0)),
                ("source_lost_seq", models.BigIntegerField(default=0)),
                ("holes_seq", models.BigIntegerField(default=0)),
                ("count", models.BigIntegerField(default=0)),
                ("bytes", models.BigIntegerField(default=0)),
                ("total", models.BigIntegerField(default=0)),
                ("last_ts", models.BigIntegerField(default=0)),
                ("last_read_ts", models.BigIntegerField(default=0)),
                ("version", models.BigIntegerField(default=1)),
                ("reserved_seq", models.BigIntegerField(db_default=0, default=0)),
                ("volatile_seq", models.BigIntegerField(db_default=0, default=0)),
                ("routed", models.BooleanField(db_default=False, default=False)),
                ("derived", models.BooleanField(db_default=False, default=False)),
                ("keeps_evidence", models.BooleanField(db_default=False, default=False)),
                ("recreated_seq", models.BigIntegerField(db_default=0, default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Span",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "topic_id", "last_seq", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("topic_id", models.BigIntegerField()),
                ("last_seq", models.BigIntegerField()),
                ("first_seq", models.BigIntegerField()),
                ("home_id", models.BigIntegerField(null=True)),
                ("home_first_seq", models.BigIntegerField()),
                ("home_last_seq", models.BigIntegerField()),
                ("ts", models.BigIntegerField()),
                ("shown", models.BooleanField(default=True)),
                ("keep_node", models.BooleanField(default=True)),
                ("keep_tag", models.BooleanField(default=True)),
                ("path", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("stamp_router", models.TextField(db_collation="C", null=True)),
                ("stamp_source", models.TextField(null=True)),
                ("stamp_source_id", models.BigIntegerField(null=True)),
                ("stamp_first_seq", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["home_id", "home_last_seq"], name="topics_span_by_home"),
                    models.Index(fields=["home_id", "topic_id", "home_last_seq"], name="topics_span_by_home_in_topic"),
                    models.Index(
                        models.F("topic_id"),
                        models.F("stamp_router"),
                        models.F("stamp_source_id"),
                        models.F("stamp_first_seq") + models.F("last_seq") - models.F("first_seq"),
                        condition=models.Q(("stamp_router__isnull", False)),
                        name="topics_span_by_stamp",
                    ),
                    models.Index(
                        condition=models.Q(("home_id__isnull", True)),
                        fields=["topic_id", "last_seq"],
                        name="topics_span_lost",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Cursor",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("named", "Named"),
                            ("router", "Router"),
                            ("subscription", "Subscription"),
                            ("pipeline", "Pipeline"),
                        ],
                        max_length=12,
                    ),
                ),
                ("name", models.CharField(db_collation="C", max_length=255)),
                ("seq", models.BigIntegerField(default=0)),
                ("forwarded_total", models.BigIntegerField(default=0)),
                ("updated_ts", models.BigIntegerField()),
                (
                    "topic",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="cursors",
                        to="topics.topic",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("topic", "name", "kind"), name="topics_cursor_owner")],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "topic_id", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("key", models.CharField(db_collation="C", max_length=256)),
                ("first_seq", models.BigIntegerField()),
                ("last_seq", models.BigIntegerField()),
                ("ts", models.BigIntegerField()),
                (
                    "topic",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="topics.topic",
                    ),
                ),
                ("digest", models.BinaryField(max_length=16, null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["ts"], name="topics_idempotency_by_age")],
            },
        ),
        migrations.RunSQL(CURSOR, migrations.RunSQL.noop),
        migrations.RunSQL(RECORD, "DROP TABLE topics_record"),
        migrations.RunSQL(SPAN, migrations.RunSQL.noop),
        migrations.RunSQL(STREAMCOUNT, migrations.RunSQL.noop),
        migrations.RunSQL(SURVIVED, "DROP TABLE topics_survived"),
        migrations.RunSQL(TOPICHEAD, migrations.RunSQL.noop),
        migrations.RunSQL(WATCHSESSION, migrations.RunSQL.noop),
    ]
