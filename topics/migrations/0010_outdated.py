"""A statement that is a whole transaction can undo itself: see topics/sql/topic_outdated.sql."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("topics", "0009_forwarded")]

    operations = [
        migrations.RunSQL((SQL / "topic_outdated.sql").read_text(), "DROP FUNCTION topic_outdated"),
    ]
