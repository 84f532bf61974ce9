"""The functions that deletes, evictions, expiry and reclaim call keep their plans between calls."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"
CHANGED = (
    "reclaim_covered",
    "topic_evict",
    "topic_expire",
    "topic_first_live",
    "topic_last_live",
    "topic_last_loss",
    "topic_next_ts",
    "topic_range_bytes",
    "topic_shrink",
)


def replaced(name: str) -> migrations.RunSQL:
    return migrations.RunSQL((SQL / f"{name}.2.sql").read_text(), (SQL / f"{name}.sql").read_text())


class Migration(migrations.Migration):
    dependencies = [("topics", "0018_reserve_in_proportion")]

    operations = [replaced(name) for name in CHANGED]
