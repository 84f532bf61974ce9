"""`topics …` in a shell (shell/cli.py). Commands use this instance's servers, unless another server is given."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from base.refusal import Refusal
from base.secret import given
from shell.calls.completion import COMPLETE
from shell.cli import main, program
from shell.command import LocalInstance


@contextmanager
def entered(may_be_new: bool) -> Iterator[None]:
    """Sets up the database of this instance, and Django.

    Raises Refusal for a folder that no instance has used, unless `may_be_new`: the reader probably meant another instance.
    """
    # A command for a server elsewhere needs neither Django nor a driver of PostgreSQL. Both would double the time of its start.
    import django

    import embedded

    if not (may_be_new or given("DATABASE_URL") or embedded.is_used()):
        raise Refusal(
            f"no instance has run in {embedded.data_dir()} yet: run `make run` or `manage.py run` first. "
            "For another instance, set TOPICS_DATA to its folder, TOPICS_URL to its address, or DATABASE_URL."
        )
    with embedded.environment():
        django.setup()
        # The command reports problems of the database itself.
        logging.getLogger("store.database").setLevel(logging.ERROR)
        yield


def backup(file: Path) -> str:
    from topics_project.operations import backups  # needs Django

    return backups.backup(file)


def restore(file: Path, force: bool) -> str:
    from topics_project.operations import backups

    return backups.restore(file, force)


def installed() -> str:
    from topics_project.operations import uninstall

    return uninstall.held()


def uninstall() -> str:
    from topics_project.operations import uninstall

    return uninstall.uninstall()


def is_up() -> bool:
    import embedded

    return bool(os.environ.get("DATABASE_URL")) or embedded.running() is not None


def is_called(arguments: Sequence[str]) -> bool:
    """Returns whether the arguments are a shell command, by `topics` or by its own name, or a shell completion."""
    first = arguments[0] if arguments else ""
    return (
        COMPLETE in os.environ or first == "topics" or first in program.commands or first.startswith(("--url", "--key"))
    )


def run(arguments: Sequence[str]) -> None:
    """Runs a shell command. Raises SystemExit if the command fails."""
    main(
        arguments[1:] if arguments[:1] == ["topics"] else arguments,
        called(),
        LocalInstance(entered, is_up, backup, restore, installed, uninstall),
    )


def called() -> str:
    """Returns the name of this program as a user would type the name. Commands in help texts then run as printed."""
    given, python, here = Path(sys.argv[0]), Path(sys.executable), Path.cwd()
    if given.name == "topics":
        return "topics"
    return f"{python.relative_to(here) if python.is_relative_to(here) else python} {given} topics"
