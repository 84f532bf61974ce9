"""`topics append`."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from base.errors import InvalidRequest
from base.units import counted
from shell.command import TOPIC, CommandConnection
from shell.importing import Import, Skip, TakenBack
from shell.lines import Shape
from shell.printing import say
from shell.progress import Progress
from shell.source import opened

MOST_OF_A_BATCH = 10_000
MOST_TOLD = 10  # number of skipped lines in messages

encoding = click.option(
    "--encoding", type=click.Choice(["utf-8", "latin-1"]), default="utf-8", help="encoding of raw lines (default utf-8)"
)


@click.argument("topic", metavar="NAME", type=TOPIC)
@click.argument("file", metavar="[FILE]", type=click.Path(allow_dash=True), default="-")
@click.option(
    "--batch",
    type=click.IntRange(1, MOST_OF_A_BATCH),
    default=1000,
    metavar="N",
    help="lines per append (default 1000)",
)
@click.option("--node", help="node of every record")
@click.option("--tag-field", metavar="FIELD", help="field of each object with the tag of the record")
@click.option("--no-create", is_flag=True, help="fail if the topic does not exist")
@click.option(
    "--idempotency-key",
    metavar="NAME",
    help="name of this run (default: the file's path). If you run the command again within the topic's "
    "idempotency_window_ms, the command appends only missing lines. Without a name, standard input is always appended",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["auto", "lines", "array"]),
    default="auto",
    help="lines: one JSON value per line. array: one JSON array. auto: a .json file is an array if it contains one "
    "(default auto)",
)
@click.option("--raw-lines", is_flag=True, help="each line is text and becomes a JSON string")
@encoding
@click.option(
    "--skip-bad",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="append invalid lines to this file, and continue with the next line",
)
@click.pass_obj
def append(
    connection: CommandConnection,
    topic: str,
    file: str,
    batch: int,
    node: str | None,
    tag_field: str | None,
    no_create: bool,
    idempotency_key: str | None,
    form: Any,
    raw_lines: bool,
    encoding: str,
    skip_bad: str | None,
) -> None:
    """Append the lines of FILE, or of standard input, to a topic. Input in gzip format is unzipped."""
    if form == "array" and raw_lines:
        raise click.UsageError("--format array and --raw-lines exclude each other: choose one")
    if file == "-" and sys.stdin is None:
        raise click.UsageError("standard input is closed: name a FILE, or send lines to standard input")
    server = connection.server
    identity = idempotency_key if idempotency_key is not None or file == "-" else str(Path(file).resolve())
    with unzipping(), opened(file, form, raw_lines, encoding) as source, skipping(skip_bad, file) as skip:
        shape = Shape(raw_lines, encoding, tag_field)
        job = Import(server, topic, source, shape, batch, identity, node, not no_create, skip)
        progress = Progress(source.size)
        try:
            job.append_all(lambda: progress.tick(source.done, job.appended))
        except BaseException as error:
            end(job, progress, skip_bad)
            if job.appended and identity is not None and not isinstance(error, TakenBack):
                say(
                    "run the same command again within the idempotency window: it continues after the last stored batch"
                )
            raise
        end(job, progress, skip_bad)


@contextmanager
def unzipping() -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error) as error:
        raise InvalidRequest(f"cannot unzip the file: {error}") from error


@contextmanager
def skipping(name: str | None, source: str) -> Iterator[Skip | None]:
    """Yields a function that appends a skipped line to the file `name` and prints the first few lines. Yields None without a
    `name`."""
    if name is None:
        yield None
        return
    if source != "-" and Path(name).resolve() == Path(source).resolve():
        raise click.UsageError("--skip-bad names the input file: choose another file")
    told = 0
    # Opened to append, because the file may contain the skipped lines of an interrupted run.
    with Path(name).open("ab") as file:

        def skip(line: bytes, message: str) -> None:
            nonlocal told
            file.write(line)
            file.flush()
            told += 1
            if told <= MOST_TOLD:
                say(message + (" (further invalid lines are not shown)" if told == MOST_TOLD else ""))

        yield skip


def end(job: Import, progress: Progress, skip_bad: str | None) -> None:
    progress.clear()
    rate = f"in {progress.seconds:.1f} s, {job.appended / progress.seconds:,.0f}/s"
    known = f"; {counted(job.known, job.source.unit)} appended before" if job.known else ""
    skipped = f"; {counted(job.skipped, job.source.unit)} skipped, see {skip_bad}" if job.skipped else ""
    done = counted(job.appended, "record")
    say(f"{done} appended to {job.topic}, {rate}{known}{skipped}")
