"""The handler of each stream's path: the console's own streams, and the streams of /v0."""

from __future__ import annotations

from console import download, live, tail
from groups import serve as groups
from queues import serve as queues
from watch import serve
from wire.asgi import Application


def stream_at(path: str) -> Application | None:
    """Returns the handler of this path, or None if the path is not that of a stream."""
    if not path.startswith("/admin/"):
        return groups.stream_at(path) or queues.stream_at(path) or serve.stream_at(path)
    if path.startswith(live.PREFIX):
        return live.stream
    if path == tail.PATH:
        return tail.stream
    return download.stream if path.startswith(download.PREFIX) else None
