"""Writes the table of alerts in docs/guides/monitoring.md from their rules. `make docs` runs it; a test compares the page."""

from __future__ import annotations

from pathlib import Path

import yaml
from tables import replaced

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guides" / "monitoring.md"
HEAD = "| alert | remedy |"


def page(text: str) -> str:
    """Returns the page with its table as the rules say it."""
    groups = yaml.safe_load((ROOT / "grafana" / "alerts.yml").read_text())["groups"]
    rows = [f"| `{rule['alert']}` | {rule['annotations']['action']} |" for each in groups for rule in each["rules"]]
    return replaced(text, HEAD, lambda: rows)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
