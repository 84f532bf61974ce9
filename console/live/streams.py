"""The handler of each path of the console's own streams."""

from __future__ import annotations

from console.live import live, tail
from console.records import download
from wire.streams import Opening


def stream_at(path: str) -> Opening | None:
    """Returns the handler of this path, or None if the path is not that of a stream of the console."""
    if path.startswith(live.PREFIX):
        return live.stream
    if path == tail.PATH:
        return tail.stream
    return download.stream if path.startswith(download.PREFIX) else None
