"""A test waits for at least DEADLINE (tests/deadlines.py), so that a busy machine fails none."""

from __future__ import annotations

import re

from tests.instances import ROOT

# A number of two digits or more. Smaller ones are limits that a test tries, and not deadlines.
SECONDS = re.compile(
    r"(\btimeout=|\bseconds=|\.wait\(|\.join\(|\.result\(|\.settimeout\()(timeout=)?\d{2,}\b(?! \* DEADLINE)"
)
SHORTER = {  # than a wait that must not pass, values of the wire, and what stands for itself
    "tests/api/test_long_poll.py": 1,
    "tests/groups/worker.py": 2,  # a program that imports nothing of ours
    "tests/api/test_sealed.py": 2,
    "tests/fuzz/test_values.py": 1,
    "tests/push/test_clocks.py": 1,
    "tests/push/test_poison.py": 1,
}


def test_no_deadline_is_a_number() -> None:
    files = (path for path in (ROOT / "tests").rglob("*.py") if "harness" not in path.parts)
    found = {str(path.relative_to(ROOT)): len(SECONDS.findall(path.read_text())) for path in files}
    assert {path: count for path, count in found.items() if count} == SHORTER
