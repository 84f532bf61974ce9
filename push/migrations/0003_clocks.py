"""Delivers a batch without waiting for the time of a clock that was ahead."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("push", "0002_functions")]

    operations = [
        migrations.RunSQL((SQL / "push_take.2.sql").read_text(), (SQL / "push_take.sql").read_text()),
    ]
