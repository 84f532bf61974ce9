from django.db import migrations

ADD = """
ALTER TABLE door_limits ADD COLUMN max_cursors bigint NOT NULL DEFAULT 10000;
ALTER TABLE door_limits ALTER COLUMN max_cursors DROP DEFAULT;
"""


class Migration(migrations.Migration):
    dependencies = [("door", "0001_tables")]

    operations = [migrations.RunSQL(ADD, "ALTER TABLE door_limits DROP COLUMN max_cursors")]
