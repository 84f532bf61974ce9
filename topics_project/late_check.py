"""A web process that started while PostgreSQL was away checks its sessions (store/sessions.py) as soon as PostgreSQL answers."""

from __future__ import annotations

import os
import signal
import sys
import threading

from store.sessions import wait_for_sessions

OPTION = "--check-sessions"  # of topics_project/web.py


def begin() -> None:
    """Starts the check in a thread of this web process, whose parent supervises all of them (base/prefork.py)."""
    threading.Thread(target=check, name="late check", daemon=True).start()


def check() -> None:
    try:
        wait_for_sessions(say)
    except SystemExit as refusal:
        say(str(refusal))
        # The parent ends the other web processes, and exits with the code of this one. Streams here need no farewell, because
        # nothing can be read through such a pooler.
        os.kill(os.getppid(), signal.SIGTERM)
        os._exit(1)


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
