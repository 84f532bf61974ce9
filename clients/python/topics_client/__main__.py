"""The command `topics` for a server elsewhere. The wheel has its modules (clients/python/hatch_build.py)."""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    if sys.version_info < (3, 11):
        sys.exit("topics: the command needs Python 3.11 or later. Only the library runs with Python 3.10")
    importlib.import_module("topics_client._command.shell.elsewhere").main()


if __name__ == "__main__":
    main()
