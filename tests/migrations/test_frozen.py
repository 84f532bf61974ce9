"""SQL that a migration loads never changes once it has landed: databases out there were made by it."""

from __future__ import annotations

import hashlib
import re

from tests.instances import ROOT

APPS = ("topics", "routers", "push", "pipeline")
FROZEN = ROOT / "tests" / "migrations" / "frozen.sha256"


def landed() -> dict[str, str]:
    """SHA-256 by file, as `sha256sum` writes them."""
    lines = (line.split("  ", 1) for line in FROZEN.read_text().splitlines())
    return {file: digest for digest, file in lines}


def present() -> dict[str, str]:
    files = sorted(file for app in APPS for file in (ROOT / app / "sql").glob("*.sql"))
    return {str(file.relative_to(ROOT)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_what_landed_is_unchanged() -> None:
    files = present()
    for file, digest in landed().items():
        stem, version = re.fullmatch(r"(.*?)(?:\.(\d+))?\.sql", file).groups()  # type: ignore[union-attr]
        following = f"{stem}.{int(version or 1) + 1}.sql"
        assert file in files, f"{file} is gone: a migration loads it"
        assert files[file] == digest, (
            f"{file} has landed, and databases were made by it: put it back, and write {following} with a migration that loads it"
        )


def test_what_is_new_is_written_down() -> None:
    new = present().keys() - landed().keys()
    assert not new, (
        f"run `sha256sum {' '.join(sorted(new))} >> {FROZEN.relative_to(ROOT)}` when what is in them is what shall land"
    )


def test_every_file_is_loaded_by_a_migration() -> None:
    migrations = "".join(file.read_text() for app in APPS for file in (ROOT / app / "migrations").glob("*.py"))
    names = {re.sub(r"\.\d+$", "", file.split("/")[-1].removesuffix(".sql")) for file in present()}
    assert {name for name in names if f'"{name}"' not in migrations and f'"{name}.' not in migrations} == set()
