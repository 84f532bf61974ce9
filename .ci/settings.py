"""Writes docs/settings.md from the declaration of the settings. `make docs` runs it; a test compares the page."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
# Settings that have no default. Nothing is connected to.
os.environ |= {
    "DATABASE_URL": "postgresql://u@localhost/d",
    "REDIS_URL": "redis://localhost",
    "SECRET_KEY": "abcde" * 10,
}

from topics_project import reference, settings  # noqa: E402, F401

(ROOT / "docs" / "settings.md").write_text(reference.page())
