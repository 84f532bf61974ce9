"""A ttl takes nothing early after a clock that was behind."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("topics", "0021_lost_from")]

    operations = [
        migrations.RunSQL((SQL / "topic_seq_at.3.sql").read_text(), (SQL / "topic_seq_at.2.sql").read_text()),
    ]
