"""`manage.py topics …`: append, tail, export and list at a shell, straight on the database: no server has to run.

Bad input ends with one line on standard error and exit code 1, a closed pipe with 141, Ctrl-C with 130.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import ProgrammingError

from base.clock import now_ms
from base.errors import TopicsError
from base.names import check_node, check_topic_name
from base.refusal import Refusal
from shell import following, listing, reading
from shell.importing import Import
from shell.lines import Shape
from shell.progress import Progress
from store.database import translating

PIPE_CLOSED = 128 + 13  # what a shell sees of a process that SIGPIPE ended
INTERRUPTED = 128 + 2


class Command(BaseCommand):
    help = "Append to topics, read them and list them at a shell."
    requires_system_checks: list[str] = []

    def get_version(self) -> str:
        return f"topics {settings.VERSION}"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.prog = parser.prog.replace("topics topics", "topics")  # installed, the program is called that itself
        calls = parser.add_subparsers(dest="call", metavar="CALL", required=True)
        add_append(calls.add_parser("append", help="append JSON lines of a file or of standard input"))
        add_tail(calls.add_parser("tail", help="print the last records of topics, and with -f what comes next"))
        add_export(calls.add_parser("export", help="print all records of a topic as lines"))
        add_ls(calls.add_parser("ls", help="list topics"))
        calls.add_parser("usage", help="say how much is stored, how much is shown, and what holds back the rest")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with translating():
                CALLS[options["call"]](**options)
            sys.stdout.flush()
        except BrokenPipeError:
            drop_output()
            raise SystemExit(PIPE_CLOSED) from None
        except KeyboardInterrupt:
            drop_output()
            raise SystemExit(INTERRUPTED) from None
        except TopicsError as error:
            raise Refusal(error.message) from error
        except ProgrammingError as error:
            raise Refusal(
                f"the database is not set up, run `make run` or `manage.py migrate` first: {error}"
            ) from error
        except OSError as error:
            raise Refusal(f"{error.filename or 'a file'}: {error.strerror or error}") from error


def drop_output() -> None:
    """What is left in the buffer has nowhere to go: at its exit Python would complain about it, or wait for a reader."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def add_append(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="default: standard input")
    parser.add_argument("--batch", type=positive, default=1000, metavar="N", help="lines of one append (1000)")
    parser.add_argument("--node", help="the node of every record")
    parser.add_argument("--tag-field", metavar="FIELD", help="take each record's tag from this field of its object")
    parser.add_argument("--no-create", action="store_true", help="refuse when the topic is absent")
    parser.add_argument(
        "--key",
        help="a name for this run (the file's path): the same command again, within the topic's idempotency_window_ms, "
        "appends only what is missing. Standard input without a key is appended each time",
    )
    add_raw(parser, "each line is text and becomes a JSON string")


def add_tail(parser: ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is appended, until Ctrl-C")
    parser.add_argument("-n", "--lines", type=natural, default=10, metavar="N", help="how many of the last ones (10)")
    add_shown(parser)


def add_export(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--from-seq", type=natural, default=0, metavar="SEQ", help="begin after this seq (0)")
    add_shown(parser)


def add_shown(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--records", action="store_true", help="print whole records: $seq, $ts, $node, $tag, meta, data"
    )
    add_raw(parser, "print JSON strings as the text they hold")


def add_raw(parser: ArgumentParser, what: str) -> None:
    parser.add_argument("--raw-lines", action="store_true", help=what)
    parser.add_argument("--encoding", choices=["utf-8", "latin-1"], default="utf-8", help="of raw lines (utf-8)")


def add_ls(parser: ArgumentParser) -> None:
    parser.add_argument("prefix", metavar="PREFIX", nargs="?", default="")
    parser.add_argument("-q", "--quiet", action="store_true", help="names only")


def natural(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 2**62:
        raise ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def positive(text: str) -> int:
    most = settings.TOPICS_MAX_RECORDS_PER_APPEND
    if not 1 <= (number := natural(text)) <= most:
        raise ArgumentTypeError(f"{text} is not from 1 to {most}")
    return number


def append(name: str, file: str, batch: int, node: str | None, no_create: bool, key: str | None, **rest: Any) -> None:
    check_topic_name(name)
    if node is not None:
        check_node(node)
    shape = Shape(rest["raw_lines"], rest["encoding"], rest["tag_field"])
    with open_source(file) as source:
        identity = key if key is not None or file == "-" else str(Path(file).resolve())
        job = Import(name, source, shape, batch, identity, node, not no_create)
        progress = Progress(os.fstat(source.fileno()).st_size)
        try:
            job.append_all(now_ms, lambda: progress.tick(job.offset, job.appended))
        except BaseException:
            end_append(job, progress)
            if job.appended and identity is not None:
                print("topics: the same command goes on from there, within the idempotency window", file=sys.stderr)
            raise
        end_append(job, progress)


def open_source(file: str) -> BinaryIO:
    return sys.stdin.buffer if file == "-" else Path(file).open("rb")


def end_append(job: Import, progress: Progress) -> None:
    progress.clear()
    rate = f"in {progress.seconds:.1f} s, {job.appended / progress.seconds:,.0f}/s"
    before = f"; {job.skipped} lines were appended before" if job.skipped else ""
    print(f"topics: {job.appended} records appended to {job.topic}, {rate}{before}", file=sys.stderr)


def tail(names: list[str], follow: bool, lines: int, records: bool, raw_lines: bool, encoding: str, **_: Any) -> None:
    line = reading.line_of(records, Shape(raw_lines, encoding))
    printed = reading.Tail(names, line, sys.stdout.buffer)
    printed.print_last(lines, now_ms)
    if follow:
        following.follow(printed)


def export(name: str, from_seq: int, records: bool, raw_lines: bool, encoding: str, **_: Any) -> None:
    progress = Progress()
    line = reading.line_of(records, Shape(raw_lines, encoding))
    try:
        reading.export(name, from_seq, line, sys.stdout.buffer, now_ms, lambda written: progress.tick(0, written))
    finally:
        progress.clear()


def ls(prefix: str, quiet: bool, **_: Any) -> None:
    for line in listing.topics(prefix, quiet):
        print(line)


def usage(**_: Any) -> None:
    for line in listing.usage():
        print(line)


CALLS: dict[str, Callable[..., None]] = {"append": append, "tail": tail, "export": export, "ls": ls, "usage": usage}
