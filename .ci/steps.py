"""Runs the steps of `.ci/run`, the cheap ones first. The first that fails ends the run.

The output ends with a report, also if the run fails or is stopped. Each step has a line with its minutes and its verdict. Below
are its failures, each with its first line. The last line tells how much memory the run had, and how much room the disk has.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.runs import GIBIBYTE, Peak  # noqa: E402

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SECOND = "PASSED ONLY THE SECOND TIME"
# A line that tells a failure: of a test, of make, ruff, mypy or our checks, or a rule that the crash harness found broken.
FAILURE = re.compile(r"FAILED |ERROR |BROKEN|\w*Error: |make: \*\*\*|.*\berror: |\S.* \(\d+\)$")
LEFT_OUT = "NOT TRIED"
SEEDS = ROOT / "tests" / "crash" / "seeds"
PATIENCE = "3"  # deadlines are three times as long, because the machine of a run may be busy (tests/deadlines.py)
MOST_SHOWN = 60  # failures of one step
KAFKA = "if .venv/bin/python .ci/kafka.py --get; then exec make kafka; fi"
IMAGE = """if docker info >/dev/null 2>&1; then
    docker build -t topics:ci . && docker run --rm --network none topics:ci python manage.py topics --help >/dev/null
else
    echo "NOT TRIED: the image, because no Docker daemon runs here."
fi"""


@dataclass
class Step:
    """A step, and its result after `run`."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    minutes: float = 0
    verdict: str = "not run"
    failures: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    slow: int = 0

    def run(self) -> bool:
        """Runs the command, and returns whether it passed. Its output is part of ours."""
        began = time.monotonic()
        self.verdict = "INTERRUPTED"
        print(f"\n== {self.name}: {' '.join(self.command)}", flush=True)
        environment = {**os.environ, "PATIENCE": PATIENCE, **self.environment}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(self.command, cwd=ROOT, env=environment, start_new_session=True, **pipes) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    sys.stdout.buffer.write(line)
                    sys.stdout.flush()
                    self.note(COLOUR.sub("", line.decode(errors="replace").rstrip()))
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)  # a stop of the run stops the step
                raise
            finally:
                self.minutes = (time.monotonic() - began) / 60
        self.verdict = "passed" if process.returncode == 0 else f"FAILED with {process.returncode}"
        return process.returncode == 0

    def note(self, line: str) -> None:
        if line.startswith(SECOND) or (self.second and line.startswith("    ")):
            self.second.append(line.strip())
        elif line.startswith("SLOW: "):
            self.slow += 1
        elif line.startswith(LEFT_OUT):
            self.left_out.append(line)
        elif FAILURE.match(line) and line not in self.failures:
            self.failures.append(line)

    def lines(self) -> list[str]:
        """Returns the lines of the report."""
        late = f"; {self.slow} faults healed late" if self.slow else ""
        failures = [] if self.verdict == "passed" else self.failures[:MOST_SHOWN]
        told = [*self.left_out, *failures, *self.second]
        return [
            f"{self.name:<16}{self.minutes:5.1f} min  {self.verdict}{late}",
            *(f"    {each[:300]}" for each in told),
        ]


def replayed() -> list[list[str]]:
    """Returns a target of make and its variables for each run of the crash harness that is replayed.

    CONTRIBUTING.md says when a change needs a run with new faults.
    """
    lines = (line.partition("#")[0].split() for line in SEEDS.read_text().splitlines())
    return [line for line in lines if line]


def steps() -> list[Step]:
    return [
        Step("environment", ["make", ".venv/dev.stamp"]),
        Step("check", ["make", "check"]),
        Step("kafka", ["sh", "-c", KAFKA]),
        Step("postgres", ["make", "postgres"]),
        *(Step(each[0], ["make", *each]) for each in replayed()),
        Step("tests", ["make", "test"], {"THOROUGH": "4"}),
        Step("image", ["sh", "-c", IMAGE]),
    ]


def run(planned: list[Step]) -> int:
    """Runs the steps, prints the report, and returns the exit code."""
    peak = Peak()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    passed = False
    try:
        passed = all(step.run() for step in planned)
    finally:
        free = shutil.disk_usage(ROOT).free / GIBIBYTE
        print(
            "\n== The report",
            *(line for step in planned for line in step.lines()),
            f"{'all':<16}{sum(step.minutes for step in planned):5.1f} min  {'PASSED' if passed else 'FAILED'}",
            f"The run had {peak}. The disk has {free:.1f} GiB left.",
            sep="\n",
            flush=True,
        )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(run(steps()))
