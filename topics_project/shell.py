"""`topics …` at a shell (shell/cli.py): on the servers of this instance, unless it is told of others."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from shell.calls.completion import COMPLETE
from shell.cli import main, program
from shell.command import Site
from topics_project import embedded


@contextmanager
def entered() -> Iterator[None]:
    """With the database of this instance, and Django, which knows its tables."""
    with embedded.environment():
        import django

        django.setup()
        logging.getLogger("store.database").setLevel(logging.ERROR)  # what is wrong with it, the command says itself
        yield


def is_up() -> bool:
    return bool(os.environ.get("DATABASE_URL")) or embedded.running() is not None


def is_called(arguments: Sequence[str]) -> bool:
    """Whether a command at a shell is meant, by `topics` or by its own name, or a shell asks what may follow."""
    first = arguments[0] if arguments else ""
    return (
        COMPLETE in os.environ or first == "topics" or first in program.commands or first.startswith(("--url", "--key"))
    )


def run(arguments: Sequence[str]) -> None:
    """Do what they say. Raises SystemExit where it does not end well."""
    main(arguments[1:] if arguments[:1] == ["topics"] else arguments, called(), Site(entered, is_up))


def called() -> str:
    """This program, as somebody here would type it: what a help text prints is to run as it is printed."""
    given, python, here = Path(sys.argv[0]), Path(sys.executable), Path.cwd()
    if given.name == "topics":
        return "topics"
    return f"{python.relative_to(here) if python.is_relative_to(here) else python} {given} topics"
