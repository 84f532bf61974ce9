"""A large topic reserves more seqs at a time, so that it waits for the disk less often."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


def read(file: str) -> str:
    return (SQL / f"{file}.sql").read_text()


# The first version says CREATE FUNCTION, for a database without the function.
BEFORE = read("topic_reserve").replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")


class Migration(migrations.Migration):
    dependencies = [("topics", "0017_unconstrained")]

    operations = [migrations.RunSQL(read("topic_reserve.2"), BEFORE)]
