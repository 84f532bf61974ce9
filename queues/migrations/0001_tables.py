"""Creates the tables of the queues."""

from django.db import migrations

LEASE = """
CREATE TABLE queues_lease (
    topic_id   bigint  NOT NULL,
    seq        bigint  NOT NULL,
    durable    boolean NOT NULL,
    node       text    COLLATE "C",
    id         uuid,
    deadline   bigint  NOT NULL,
    deliveries integer NOT NULL,
    PRIMARY KEY (topic_id, seq, durable)
) PARTITION BY LIST (durable);
CREATE TABLE queues_lease_logged PARTITION OF queues_lease FOR VALUES IN (true)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE UNLOGGED TABLE queues_lease_unlogged PARTITION OF queues_lease FOR VALUES IN (false)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE INDEX queues_lease_by_deadline ON queues_lease (topic_id, deadline, seq);
"""
MOVED = """
CREATE TABLE queues_moved (
    topic_id bigint PRIMARY KEY,
    jobs     bigint NOT NULL
);
"""
QUEUE = """
CREATE TABLE queues_queue (
    topic_id  bigint  NOT NULL,
    durable   boolean NOT NULL,
    next_seq  bigint  NOT NULL,
    floor_seq bigint  NOT NULL,
    in_flight bigint  NOT NULL,
    delayed   bigint  NOT NULL,
    low_ts    bigint  NOT NULL,
    swept_ts  bigint  NOT NULL,
    PRIMARY KEY (topic_id, durable)
) PARTITION BY LIST (durable);
CREATE TABLE queues_queue_logged PARTITION OF queues_queue FOR VALUES IN (true)
    WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE UNLOGGED TABLE queues_queue_unlogged PARTITION OF queues_queue FOR VALUES IN (false)
    WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [("topics", "0001_baseline")]

    operations = [
        migrations.RunSQL(LEASE, "DROP TABLE queues_lease"),
        migrations.RunSQL(MOVED, "DROP TABLE queues_moved"),
        migrations.RunSQL(QUEUE, "DROP TABLE queues_queue"),
    ]
