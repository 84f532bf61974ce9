"""Standard output and standard error of a command, also where nobody takes what it prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TextIO

import click


def escape_output() -> None:
    """Lets standard output escape characters that its encoding lacks, as standard error does. Otherwise they are an error."""
    if isinstance(sys.stdout, TextIOWrapper):  # and not closed
        sys.stdout.reconfigure(errors="backslashreplace")


def check_streams() -> None:
    """Puts the null device in place of a closed standard error, because a command works also if nobody gets its messages.

    Raises click.UsageError if standard output is closed, before the command does something whose answer nobody would get.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (it stays open, as the stream that it replaces)
    if sys.stdout is None:
        raise click.UsageError("standard output is closed: redirect it to a file, or to /dev/null")


@contextmanager
def messages() -> Iterator[TextIO]:
    """Yields standard error. If it takes no more, as on a full disk, messages are dropped, and the command continues."""
    try:
        yield sys.stderr
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def end_output() -> None:
    """Writes what standard output has buffered, or discards it."""
    try:
        sys.stdout.flush()
    except OSError:
        discard(sys.stdout)


def discard(stream: TextIO) -> None:
    """Discards the buffer of a stream, and all later output.

    Otherwise Python would write it at its exit, and complain, or wait for a reader.
    """
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())
