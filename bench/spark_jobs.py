"""Measures the commands of the pipeline: an archive of a topic, the same again with nothing new, `verify` and `restore`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.report import Row
from tests.instances import ROOT

MOST_GB = 1.2
TICK = 0.2  # seconds between two looks at the memory
TOOK = re.compile(r"in ([\d.]+) s(?:, of which Spark's start took ([\d.]+) s)?")


class Ran(NamedTuple):
    """A command that has ended. `has_spark`: whether it started Spark."""

    seconds: float
    own_seconds: float  # without Spark's start
    peak_gb: float  # of all its processes
    has_spark: bool


def jobs(topic: str, records: int, folder: Path) -> Iterator[Row]:
    """Yields a row for each command. The time that is asked for is that of a million records."""
    archive = str(folder / f"jobs-{topic}")
    share = records / 1_000_000
    first = run("archive", "--topic", topic, "--out", archive)
    yield row(f"archive of {records:,} records", first, 12 * share)
    again = run("archive", "--topic", topic, "--out", archive)
    yield Row(
        "archive with nothing new",
        "< 2 s, without Spark",
        f"{again.seconds:.1f} s, {'with' if again.has_spark else 'without'} Spark",
        ok=again.seconds < 2 and not again.has_spark,
    )
    yield row(f"verify of {records:,} records", run("verify", "--topic", topic, "--archive", archive), 8 * share)
    restored = run("restore", "--archive", archive, "--source", topic, "--topic", f"{topic}-again")
    yield row(f"restore of {records:,} records", restored, 15 * share)


def row(what: str, ran: Ran, asked: float) -> Row:
    return Row(
        what,
        f"< {asked:g} s after Spark's start, < {MOST_GB} GB",
        f"{ran.own_seconds:.1f} s, {ran.peak_gb:.2f} GB",
        ok=ran.own_seconds < asked and ran.peak_gb < MOST_GB,
    )


def run(*command: str) -> Ran:
    """Runs `manage.py pipeline COMMAND …` with the settings of this process."""
    started, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as output:
        argv = [sys.executable, str(ROOT / "manage.py"), "pipeline", *command]
        process = subprocess.Popen(argv, stdout=output, stderr=output, start_new_session=True)
        while process.poll() is None:
            peak = max(peak, session_bytes(process.pid))
            time.sleep(TICK)
        seconds = time.perf_counter() - started
        output.seek(0)
        text = output.read()
    found = TOOK.search(text)
    if process.returncode or found is None:
        raise RuntimeError(f"{' '.join(command)}: {text}")
    own = float(found[1]) - float(found[2] or 0)
    return Ran(seconds, own, peak / 1e9, found[2] is not None)


def session_bytes(session: int) -> int:
    """Returns the memory of all processes of a session. Processes share a page in equal parts (Pss)."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == session:
                total += (
                    int(re.findall(r"^Pss: +(\d+) kB", (entry / "smaps_rollup").read_text(), re.MULTILINE)[0]) * 1024
                )
        except (OSError, IndexError):  # the process has ended
            continue
    return total
