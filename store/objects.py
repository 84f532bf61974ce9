"""SQL objects of an app: its `sql/` has the current text of each, and its migrations create, replace and drop them.

`.ci/snapshot.py` writes the lists of names in the migrations. When an object changes after a release, the command also stores the
released text in `migrations/superseded/`. So each migration loads the text of its own time, and `sql/` has no versions.
"""

from __future__ import annotations

import re
from pathlib import Path

from django.db import migrations

CREATED = re.compile(r"^CREATE (?:OR REPLACE )?(?:UNLOGGED )?(TABLE|VIEW|FUNCTION) (\w+)", re.MULTILINE)


class Objects:
    """The objects that one migration creates, replaces and drops, by name: `functions/topic_diff`.

    A name comes after the names that its text uses.
    """

    def __init__(
        self, migration: str, creates: tuple[str, ...] = (), replaces: tuple[str, ...] = (), drops: tuple[str, ...] = ()
    ) -> None:
        """`migration` is the file of the migration."""
        self.file, self.creates, self.replaces, self.drops = Path(migration), creates, replaces, drops
        self.number = int(self.file.name[:4])

    def operations(self) -> list[migrations.RunSQL]:
        return [
            *[migrations.RunSQL(text, undo(text)) for text in map(self.after, self.creates)],
            *[self.replace(self.before(name), self.after(name)) for name in self.replaces],
            *[migrations.RunSQL(undo(text), text) for text in map(self.before, reversed(self.drops))],
        ]

    @staticmethod
    def replace(before: str, after: str) -> migrations.RunSQL:
        """PostgreSQL replaces a function only if names, types and results stay. Otherwise the migration drops it first."""
        dropped = f"{undo(before)};\n" if signature(before) != signature(after) else ""
        return migrations.RunSQL(dropped + after, dropped + before)

    def before(self, name: str) -> str:
        return text(self.file.parent, name, self.number - 1)

    def after(self, name: str) -> str:
        return text(self.file.parent, name, self.number)


def text(folder: Path, name: str, number: int) -> str:
    """Returns the SQL of an object as the migration with this number loads it. `folder` is the app's `migrations/`."""
    versions = sorted((folder / "superseded").glob(f"{name.split('/')[1]}.*.sql"))
    later = [file for file in versions if int(file.name.split(".")[1]) > number]
    return (later[0] if later else folder.parent / "sql" / f"{name}.sql").read_text()


def undo(text: str) -> str:
    """Returns the statement that drops what the text creates, and "" if it only changes or grants: that ends with the table."""
    created = CREATED.search(text)
    return f"DROP {created[1]} {created[2]}" if created else migrations.RunSQL.noop


def signature(text: str) -> str:
    """Returns the definition of a function without its language, settings and body. Other objects have ""."""
    statement = re.sub(r"--.*", "", text)
    found = re.search(r"FUNCTION\s.*?(?=\bLANGUAGE\b)", statement, re.DOTALL)
    return " ".join(found[0].split()) if found else ""
