"""`topics …` at a shell (shell/cli.py): on the servers of this instance, unless it is told of others."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from shell.cli import main
from shell.command import Site
from topics_project import embedded


@contextmanager
def entered() -> Iterator[None]:
    """With the database of this instance, and Django, which knows its tables."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")
    with embedded.environment():
        import django

        django.setup()
        yield


def is_up() -> bool:
    return bool(os.environ.get("DATABASE_URL")) or embedded.running() is not None


def run(arguments: Sequence[str]) -> None:
    """The command that `manage.py topics` was given. Raises SystemExit where it does not end well."""
    main(arguments, f"{python()} {sys.argv[0]} topics", Site(entered, is_up))


def python() -> str:
    """This interpreter, as somebody here would type it: what a help text prints is to run as it is printed."""
    program, here = Path(sys.executable), Path.cwd()
    return str(program.relative_to(here)) if program.is_relative_to(here) else str(program)
