"""The web server: WEB_WORKERS processes that share one listening socket. The first process only supervises (base/prefork.py).

The socket stays open while a process is replaced, so connections wait for the next process instead of a refusal.
"""

from __future__ import annotations

import os
import socket
import sys

import uvloop

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")

from django.conf import settings

from base import prefork
from base.descriptors import raise_limit
from base.neighbours import Neighbours
from http1 import Shares
from topics_project.counts_folder import counts_folder
from wire.process import sockets

# Streams never end by themselves. A process that takes longer to end them is killed, after PATIENCE_SECONDS of
# wire/process/shutdown.py.
PATIENCE_SECONDS = 5.0


def main() -> int:
    """Serves until a signal. Returns the exit code."""
    raise_limit()  # each stream needs a descriptor
    listener = sockets.listener(settings.HOST, settings.PORT)
    shares, neighbours = Shares(settings.WEB_WORKERS), Neighbours(settings.WEB_WORKERS)
    with counts_folder():
        return prefork.run(
            settings.WEB_WORKERS,
            lambda slot: work(listener, shares, neighbours, slot),
            name="web server",
            patience=PATIENCE_SECONDS,
        )


def work(listener: socket.socket, shares: Shares, neighbours: Neighbours, slot: int) -> int:
    """Serves in one process."""
    # The first process loads no code of the product, because outside of Linux a fork cannot rely on the system's libraries.
    from topics_project import late_check
    from topics_project.serve import serve

    if slot == 0 and late_check.OPTION in sys.argv:
        late_check.begin()
    return uvloop.run(serve(listener, shares, neighbours, slot))


if __name__ == "__main__":
    sys.exit(main())
