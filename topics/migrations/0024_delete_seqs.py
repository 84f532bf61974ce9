"""Records can be deleted by seq."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("topics", "0023_sealed")]

    operations = [
        migrations.RunSQL((SQL / "topic_delete_seqs.sql").read_text(), "DROP FUNCTION topic_delete_seqs"),
    ]
