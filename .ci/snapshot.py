"""Compares sql/ of each app with its migrations, and writes the names that a migration must create, replace or drop.

    .ci/snapshot.py            after a change of sql/, before its commit
    .ci/snapshot.py release    before the tag of a release: stores its schema and its migrations in tests/migrations/releases/

A committed migration never changes, because somebody may have a database that it made. The command writes a new one with the
objects that differ from the last commit, and writes it again until you commit it.
Tables only change by migrations of their own: the command names those whose file changed.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from topics_project import __version__, embedded  # noqa: E402

# Each app uses objects of the apps before it.
APPS = ("topics", "queues", "groups", "mirrors", "routers", "push", "pipeline")
RELEASES = ROOT / "tests" / "migrations" / "releases"
LISTED = re.compile(r"^OBJECTS = Objects\(.*?^\)\n", re.MULTILINE | re.DOTALL)
MIGRATION = '''"""SQL objects that changed."""

from django.db import migrations

from store.objects import Objects

{objects}

class Migration(migrations.Migration):
    dependencies = [{dependencies}]

    operations = OBJECTS.operations()
'''


def migrations(app: str) -> list[Path]:
    return sorted((ROOT / app / "migrations").glob("0*.py"))


def listed(file: Path) -> dict[str, tuple[str, ...]]:
    """Returns the names that a migration creates, replaces and drops; {} if it has no list. Their files may be missing."""
    found = LISTED.search(file.read_text())
    call = ast.parse(found[0].partition("=")[2].strip(), mode="eval").body if found else None
    return {word.arg: ast.literal_eval(word.value) for word in call.keywords} if isinstance(call, ast.Call) else {}


def present(app: str) -> dict[str, str]:
    """The texts of the app's objects by name."""
    folder = ROOT / app / "sql"
    return {str(file.relative_to(folder).with_suffix("")): file.read_text() for file in sorted(folder.glob("*/*.sql"))}


def statements(text: str) -> str:
    """The text without the comment above its first statement, which a database does not keep."""
    return re.sub(r"\A(--.*\n|\s+)*", "", text)


def ordered(texts: dict[str, str]) -> tuple[str, ...]:
    """The names, each after those that its text uses. Models' tables, which a file only changes, come first."""
    uses = {name: set(re.findall(r"\w+", re.sub(r"--.*", "", text))) for name, text in texts.items()}
    order: list[str] = []
    left = sorted(texts, key=lambda name: (("tables", "functions", "roles").index(name.split("/")[0]), name))
    while left:
        free = [name for name in left if not any(other.split("/")[1] in uses[name] for other in left if other != name)]
        if not free:
            sys.exit(f"These use one another, so none can be the first: {', '.join(left)}.")
        order.append(free[0])
        left.remove(free[0])
    return tuple(order)


def existing(files: list[Path]) -> set[str]:
    """The names of the objects after these migrations."""
    names: set[str] = set()
    for objects in map(listed, files):
        names = (names | {*objects.get("creates", ())}) - {*objects.get("drops", ())}
    return names


def committed(file: str) -> str | None:
    """Returns the text of a file in the last commit, or None if it is not there."""
    done = subprocess.run(["git", "show", f"HEAD:{file}"], cwd=ROOT, capture_output=True, text=True)
    return None if done.returncode else done.stdout


def block(creates: tuple[str, ...], replaces: tuple[str, ...], drops: tuple[str, ...]) -> str:
    lines = ["OBJECTS = Objects(", "    __file__,"]
    for title, names in (("creates", creates), ("replaces", replaces), ("drops", drops)):
        if names:
            lines += [f"    {title}=(", *[f'        "{name}",' for name in names], "    ),"]
    return "\n".join([*lines, ")\n"])


def formatted(code: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(ROOT / "objects.py"), "-"]
    return subprocess.run(command, input=code, check=True, capture_output=True, text=True).stdout


def dependencies(app: str, files: list[Path]) -> str:
    """The last migrations of the app and of the apps below it."""
    below = APPS[: APPS.index(app)]
    last = [(app, files[-1].stem), *[(other, migrations(other)[-1].stem) for other in below]]
    return ", ".join(f'("{name}", "{stem}")' for name, stem in last)


def snapshot(app: str) -> None:
    """Writes the app's migration with the objects that differ from the last commit, and stores the committed texts of these."""
    files, texts = migrations(app), present(app)
    new = [file for file in files if LISTED.search(file.read_text()) and committed(str(file.relative_to(ROOT))) is None]
    file = new[-1] if new else ROOT / app / "migrations" / f"{int(files[-1].name[:4]) + 1:04}_objects.py"
    names = existing([other for other in files if other < file])
    before = {name: committed(f"{app}/sql/{name}.sql") or "" for name in names}
    changed = {name for name, text in before.items() if statements(texts.get(name, "")) != statements(text)}
    superseded = file.parent / "superseded"
    for old in superseded.glob(f"*.{file.name[:4]}.sql"):
        old.unlink()
    for name in changed:
        superseded.mkdir(exist_ok=True)
        (superseded / f"{name.split('/')[1]}.{file.name[:4]}.sql").write_text(before[name])
    tables = {name for name in changed if "OR REPLACE" not in before[name] and name.startswith("tables/")}
    for name in sorted(tables):
        print(f"{app}/sql/{name}.sql changed. Write a migration that makes the same change with ALTER or DROP.")
    order = ordered(texts)
    creates = tuple(name for name in order if name not in before)
    replaces = tuple(name for name in order if name in changed - tables)
    drops = tuple(sorted(changed - tables - set(texts)))
    if file.exists():
        old_text = file.read_text()
        new_text = LISTED.sub(lambda _: block(creates, replaces, drops), old_text)
    elif creates or replaces or drops:
        old_text, new_text = (
            "",
            MIGRATION.format(objects=block(creates, replaces, drops), dependencies=dependencies(app, files)),
        )
    else:
        return
    new_text = formatted(new_text)
    if old_text != new_text:
        file.write_text(new_text)
        print(f"Wrote {file.relative_to(ROOT)}.")


def release() -> None:
    """Stores the schema that the migrations make, and the digests of the migrations."""
    tag = f"v{__version__}"
    if subprocess.run(["git", "tag", "--list", tag], cwd=ROOT, check=True, capture_output=True).stdout:
        sys.exit(f"{tag} is tagged already: raise __version__ in topics_project/__init__.py first.")
    with tempfile.TemporaryDirectory(prefix="topics-release-") as folder:
        os.environ |= {"TOPICS_DATA": folder, "DJANGO_SETTINGS_MODULE": "topics_project.settings"}
        with embedded.environment():
            from tests.migrations.databases import database, dump, migrate

            with database() as url:
                migrate(url)
                RELEASES.mkdir(exist_ok=True)
                (RELEASES / f"{tag}.sql").write_text(dump(url))
    loaded = sorted(
        file for app in APPS for file in (ROOT / app / "migrations").rglob("*") if file.suffix in (".py", ".sql")
    )
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(ROOT)}\n" for file in loaded]
    (RELEASES / f"{tag}.sha256").write_text("".join(lines))
    print(f"Wrote tests/migrations/releases/{tag}.sql and {tag}.sha256. Commit them, then tag the commit {tag}.")


if __name__ == "__main__":
    for each in APPS:
        snapshot(each)
    if sys.argv[1:] == ["release"]:
        release()
