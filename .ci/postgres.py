"""The contract of the log and the routers, and the plans of statements, on each PostgreSQL here but the newest (`make test`).

One of each major version: the distribution's, and what the wheels bring. Says which of the supported ones were not to be had.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from embedded.programs import LEAST_POSTGRES, Program, postgreses  # noqa: E402

NEWEST = 18
SIDE_BY_SIDE = 2  # runs at once
CONTRACT = (
    "tests/api/test_append.py",
    "tests/api/test_diff.py",
    "tests/door/test_append.py",
    "tests/door/test_own_schema.py",
    "tests/door/test_queues.py",
    "tests/door/test_rights.py",
    "tests/groups/test_plans.py",
    "tests/log/test_delete.py",
    "tests/log/test_restart.py",
    "tests/log/test_plans.py",
    "tests/log/test_removal_plans.py",
    "tests/outbox",
    "tests/push/test_webhook_due.py",
    "tests/queues/test_plans.py",
    "tests/routers/test_forward.py",
    "tests/routers/test_plans.py",
    "tests/migrations/test_schema.py",
)


def main() -> int:
    os.environ.pop("TOPICS_POSTGRESQL", None)
    found: dict[int, Program] = {}
    for program in postgreses():
        found.setdefault(program.version[0], program)
    missing = [str(major) for major in range(LEAST_POSTGRES[0], NEWEST + 1) if major not in found]
    if missing:
        print(f"NOT TRIED, since they are not here: PostgreSQL {', '.join(missing)}.")
    tried = [program for major, program in sorted(found.items()) if major != max(found)]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        failed = False
        for program, done in zip(tried, threads.map(run, tried), strict=True):
            print(f"PostgreSQL {program.version_text}: {program.path}", done.stdout, sep="\n", flush=True)
            failed |= done.returncode != 0
    return int(failed)


def run(program: Program) -> subprocess.CompletedProcess[str]:
    """Runs the contract in one process, on servers of its own."""
    environment = {**os.environ, "TOPICS_POSTGRESQL": str(program.path.parent)}
    command = [sys.executable, "-m", "pytest", "-q", *CONTRACT]
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


if __name__ == "__main__":
    sys.exit(main())
