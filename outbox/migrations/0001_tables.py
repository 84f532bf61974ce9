"""Creates the tables of the outbox."""

from django.db import migrations

EMITTED = """
CREATE TABLE outbox_emitted (
    xid   xid8    NOT NULL DEFAULT pg_current_xact_id(),
    id    bigint  GENERATED ALWAYS AS IDENTITY,
    ts    bigint  NOT NULL DEFAULT extract(epoch FROM clock_timestamp()) * 1000,
    size  integer NOT NULL,
    topic text    COLLATE "C" NOT NULL,
    tag   text,
    node  text,
    key   text,
    data  json    NOT NULL,
    meta  json,
    PRIMARY KEY (xid, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
"""
WAITING = """
CREATE TABLE outbox_waiting (
    topic text    COLLATE "C" NOT NULL,
    place bigint  GENERATED ALWAYS AS IDENTITY,
    ts    bigint  NOT NULL,
    size  integer NOT NULL,
    tag   text,
    node  text,
    key   text,
    data  json    NOT NULL,
    meta  json,
    PRIMARY KEY (topic, place)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
"""
STOPPED = """
CREATE TABLE outbox_stopped (
    topic    text   COLLATE "C" PRIMARY KEY,
    code     text   NOT NULL,
    message  text   NOT NULL,
    since_ts bigint NOT NULL,
    next_ts  bigint NOT NULL
);
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [("topics", "0001_baseline"), ("door", "0001_tables")]

    operations = [
        migrations.RunSQL(EMITTED, "DROP TABLE outbox_emitted"),
        migrations.RunSQL(WAITING, "DROP TABLE outbox_waiting"),
        migrations.RunSQL(STOPPED, "DROP TABLE outbox_stopped"),
    ]
