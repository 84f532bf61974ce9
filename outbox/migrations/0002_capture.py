"""Creates the table of captured tables. Many changes of one statement share a row of the outbox, so it stores long values as they are.

The relay reads each value once, soon after it was written. To compress it would take longer than the rest of a capture.
"""

from django.db import migrations

CAPTURE = """
CREATE TABLE outbox_capture (
    id          bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relid       oid     NOT NULL UNIQUE,
    named       text    NOT NULL,
    owner       text    NOT NULL,
    topic       text    COLLATE "C" NOT NULL,
    key         text[],
    columns     text[],
    fails       boolean NOT NULL,
    snapshot    text    NOT NULL,
    after       text[],
    snapshotted bigint  NOT NULL DEFAULT 0,
    changes     bigint  NOT NULL DEFAULT 0,
    lost        bigint  NOT NULL DEFAULT 0,
    error       text,
    error_ts    bigint
);
"""
PLAIN = "ALTER TABLE outbox_emitted ALTER COLUMN data SET STORAGE EXTERNAL"
COMPRESSED = "ALTER TABLE outbox_emitted ALTER COLUMN data SET STORAGE EXTENDED"


class Migration(migrations.Migration):
    dependencies = [("outbox", "0001_tables")]

    operations = [
        migrations.RunSQL(CAPTURE, "DROP TABLE outbox_capture"),
        migrations.RunSQL(PLAIN, COMPRESSED),
    ]
