"""Creates the tables of consumer groups."""

from django.db import migrations

GROUP = """
CREATE TABLE groups_group (
    id           bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id     bigint  NOT NULL REFERENCES topics_topic ON DELETE CASCADE,
    name         text    COLLATE "C" NOT NULL,
    partition_by text    NOT NULL,
    partitions   integer NOT NULL,
    start        text    NOT NULL,
    created_ts   bigint  NOT NULL,
    UNIQUE (topic_id, name)
);
"""
MEMBER = """
CREATE TABLE groups_member (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id   bigint NOT NULL REFERENCES groups_group ON DELETE CASCADE,
    name       text   COLLATE "C" NOT NULL,
    session_ms bigint NOT NULL,
    joined_ts  bigint NOT NULL,
    seen_ts    bigint NOT NULL,
    UNIQUE (group_id, name)
) WITH (fillfactor = 50);
"""
SHARE = """
CREATE TABLE groups_share (
    group_id   bigint  NOT NULL REFERENCES groups_group ON DELETE CASCADE,
    share      integer NOT NULL,
    seq        bigint  NOT NULL,
    generation bigint  NOT NULL DEFAULT 0,
    member_id  bigint,
    next_id    bigint,
    turn       bigint  NOT NULL DEFAULT 0,
    drain_seq  bigint,
    updated_ts bigint  NOT NULL,
    PRIMARY KEY (group_id, share)
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [("topics", "0001_baseline")]

    operations = [
        migrations.RunSQL(GROUP, "DROP TABLE groups_group"),
        migrations.RunSQL(MEMBER, "DROP TABLE groups_member"),
        migrations.RunSQL(SHARE, "DROP TABLE groups_share"),
    ]
