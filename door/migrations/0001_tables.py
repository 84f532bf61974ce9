"""Creates the schema `topics`, for the functions that applications call, and the tables of the SQL door."""

from django.db import migrations

from topics.schema import ENTER

# CREATE SCHEMA IF NOT EXISTS asks for the right to create one even if the schema exists.
SCHEMA = """
DO $$
BEGIN
    IF to_regnamespace('topics') IS NULL THEN
        CREATE SCHEMA topics;
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE insufficient_privilege
        USING MESSAGE = format('%I may create no schema: run CREATE SCHEMA topics AUTHORIZATION %I as the owner of the database, then migrate again',
                               current_user, current_user);
END
$$;
"""
# The schema stays if it has tables of ours, or anything of somebody else's.
DROP_SCHEMA = """
DO $$
BEGIN
    IF current_schema() <> 'topics' THEN
        DROP SCHEMA topics;
    END IF;
EXCEPTION
    WHEN dependent_objects_still_exist OR undefined_object OR invalid_schema_name THEN
        NULL;
END
$$;
"""
RIGHT = """
CREATE TABLE door_right (
    login  text   NOT NULL COLLATE "C",
    prefix text   NOT NULL COLLATE "C",
    scopes text[] NOT NULL,
    PRIMARY KEY (login, prefix)
);
"""
LIMITS = """
CREATE TABLE door_limits (
    id              boolean PRIMARY KEY DEFAULT true CHECK (id),
    max_topics      bigint NOT NULL,
    max_total_bytes bigint NOT NULL,
    records         bigint NOT NULL,
    record_bytes    bigint NOT NULL,
    meta_bytes      bigint NOT NULL,
    meta_keys       bigint NOT NULL,
    tag_bytes       bigint NOT NULL,
    node_bytes      bigint NOT NULL,
    diff_limit      bigint NOT NULL,
    diff_bytes      bigint NOT NULL,
    is_strict       boolean NOT NULL
);
INSERT INTO door_limits VALUES (true, 100000, 0, 10000, 1048576, 16384, 64, 256, 128, 1000, 1048576, true);
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [("topics", "0012_expiry"), ("queues", "0007_done_schedules")]

    operations = [
        migrations.RunSQL(SCHEMA, DROP_SCHEMA),
        migrations.RunSQL(ENTER, migrations.RunSQL.noop),  # the new schema may be in the search_path
        migrations.RunSQL(RIGHT, "DROP TABLE door_right"),
        migrations.RunSQL(LIMITS, "DROP TABLE door_limits"),
    ]
