"""Rows of a benchmark: the asked figure, the measured figure, and the raw limit."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import psycopg

RESULTS = Path(__file__).resolve().parent / "RESULTS.md"
SUMMARY = RESULTS.parent.parent / "docs" / "benchmarks.md"
ASKED = "The column *asked* has the figure that we want of such a machine. MISSED: the run did not reach the figure."


@dataclass
class Row:
    """One line of the table. `ok` is None if the row has no asked figure."""

    work: str
    asked: str
    measured: str
    raw: str = ""
    ratio: str = ""
    ok: bool | None = None

    def cells(self) -> tuple[str, ...]:
        verdict = {None: "", True: "met", False: "MISSED"}[self.ok]
        return self.work, self.asked, self.measured, self.raw, self.ratio, verdict


def line(row: Row) -> str:
    return "| " + " | ".join(row.cells()) + " |"


def table(rows: Iterable[Row], limit: str = "raw limit") -> str:
    """`limit`: the heading of the figures beside the measured ones."""
    headings = ("work", "asked", "measured", limit, "ratio", "")
    heading = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join(heading + [line(row) for row in rows])


def machine(database_url: str) -> str:
    """Returns a description of the machine in one line."""
    with psycopg.connect(database_url) as connection:
        version = connection.execute("SHOW server_version").fetchone()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores with the client on them, {memory:.0f} GiB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, PostgreSQL {version[0] if version else '?'}"
    )


def answers(sections: dict[str, list[Row]], questions: dict[str, str]) -> str:
    """Returns a table of users' questions, each with the measured figure of its row."""
    measured = {row.work: row.measured for rows in sections.values() for row in rows}
    lines = [f"| {question} | {measured[work]} |" for question, work in questions.items() if work in measured]
    return "\n".join(["| | |", "|---|---|", *lines])


def write(
    sections: dict[str, list[Row]],
    where: str,
    notes: str,
    document: Path = RESULTS,
    command: str = "make bench",
    questions: dict[str, str] | None = None,
) -> None:
    """Write all rows of a run to `document`. With `questions`, write their answers to docs/benchmarks.md."""
    printed = f"Printed by `{command}` on {date.today()}: {where}."
    if questions:
        opening = "For everybody who wonders whether it is fast enough: one run on a small machine."
        more = (
            "`bench/RESULTS.md` in the repository has all measurements of this run, beside the figures that we ask for."
        )
        parts = ["# Benchmarks", opening, printed, answers(sections, questions), notes, more]
        SUMMARY.write_text("\n\n".join(parts) + "\n")
    parts = ["# Benchmarks", printed, notes, ASKED]
    for title, rows in sections.items():
        parts += [f"## {title}", table(rows)]
    document.write_text("\n\n".join(parts) + "\n")
