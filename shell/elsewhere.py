"""`topics …` on a machine without an instance, for a server elsewhere alone.

The wheel of the Python client has this command (clients/python/hatch_build.py), so this package runs without Django.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from base.refusal import Refusal
from shell import cli
from shell.command import LocalInstance
from shell.streams import escape_output


def refuse(*_: object) -> NoReturn:
    raise Refusal("no server: set TOPICS_URL, or give --url https://host")


def main() -> None:
    """Runs `topics` with the arguments of this process."""
    escape_output()
    for name in cli.ONLY_HERE:
        del cli.program.commands[name]
    cli.main(sys.argv[1:], "topics", LocalInstance(refuse, lambda: False, refuse, refuse, refuse, refuse))
