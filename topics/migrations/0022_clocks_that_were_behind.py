"""After a clock was behind, a ttl removes no record early."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("topics", "0021_lost_from")]

    operations = [
        migrations.RunSQL((SQL / "topic_seq_at.3.sql").read_text(), (SQL / "topic_seq_at.2.sql").read_text()),
    ]
