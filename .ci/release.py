"""Stores the schema that the migrations make, and the digests of the migrations. Run it before the tag of a release.

Tests then check the upgrade from this release, and its migrations are frozen, because databases were made by them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import embedded  # noqa: E402
from topics_project import __version__  # noqa: E402

RELEASES = ROOT / "tests" / "migrations" / "releases"


def release() -> None:
    tag = f"v{__version__}"
    if subprocess.run(["git", "tag", "--list", tag], cwd=ROOT, check=True, capture_output=True).stdout:
        sys.exit(f"{tag} is tagged already: raise __version__ in topics_project/__init__.py first.")
    with tempfile.TemporaryDirectory(prefix="topics-release-") as folder:
        os.environ |= {"TOPICS_DATA": folder, "DJANGO_SETTINGS_MODULE": "topics_project.settings"}
        with embedded.environment():
            from tests.migrations.databases import database, dump, migrate, schema

            with database() as url:
                migrate(url)
                (RELEASES / f"{tag}.sql").write_text(schema(dump(url)))
    files = sorted(ROOT.glob("*/migrations/*.py"))
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(ROOT)}\n" for file in files]
    (RELEASES / f"{tag}.sha256").write_text("".join(lines))
    print(f"Wrote {tag}.sql and {tag}.sha256 in tests/migrations/releases/. Commit them, then tag the commit {tag}.")


if __name__ == "__main__":
    release()
