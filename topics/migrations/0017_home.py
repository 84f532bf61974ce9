"""The mark that PostgreSQL did not crash says where the database is, because a plain dump has the mark, too."""

from django.db import migrations

ADD = "ALTER TABLE topics_survived ADD COLUMN home text"
DROP = "ALTER TABLE topics_survived DROP COLUMN home"
# As topics_home() has it. If the row is missing, PostgreSQL crashed, and topics_recover writes it.
FILL = """
UPDATE topics_survived SET home = (
    SELECT (pg_control_system()).system_identifier || '/' || oid || '/' || 'topics_survived'::regclass::oid
      FROM pg_database WHERE datname = current_database())
"""


class Migration(migrations.Migration):
    dependencies = [
        ("topics", "0016_index_of_queues"),
    ]

    operations = [
        migrations.RunSQL(ADD, DROP),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
