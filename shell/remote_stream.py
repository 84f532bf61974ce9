"""`tail -f` over HTTP with a watch session (docs/watch.md). When an awaited topic appears, a new session starts.

The server may restart meanwhile, also behind a proxy that then answers 502. The stream continues after the last id, or with a
new session.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol

import urllib3

from base.errors import TopicsError
from shell.follower import Follower
from shell.printing import LIMIT, say
from shell.server import CommandServer, ask, can_pass, path

HEARTBEAT_MS = 1000  # interval at which a quiet stream gives a chance to look for awaited topics
SILENT_SECONDS = 15  # a stream without a byte for so long counts as lost
PAUSE_SECONDS = 1.0
PIECE_BYTES = 64 * 1024


class Streaming(CommandServer, Protocol):
    def stream(self, path: str, last_id: str | None, silent_seconds: float) -> urllib3.BaseHTTPResponse: ...


def follow(server: Streaming, follower: Follower) -> None:
    """Passes new records to the follower until Ctrl-C. Raises TopicsError."""
    following = Following(server, follower)
    while True:
        try:
            following.look()
            if follower.seqs and (at := following.begin()):
                following.listen(at)
        except TopicsError as error:
            if not can_pass(error):
                raise
            following.tell_trouble(error.message)
        time.sleep(PAUSE_SECONDS)


class Following:
    def __init__(self, server: Streaming, follower: Follower) -> None:
        self.server, self.follower = server, follower
        self.trouble = ""  # the last printed trouble; empty once the stream works
        self.looked = 0.0

    def tell_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            say(f"{trouble}: trying again")
        self.trouble = trouble

    def look(self) -> bool:
        """Returns True if one of the awaited topics exists now."""
        self.looked = time.monotonic()
        for name in sorted(self.follower.awaited):
            try:
                self.server.send("GET", path("topics", name), {"touch": False})
            except TopicsError as error:
                if error.code != "topic_not_found":
                    raise
            else:
                self.follower.appear(name)
                return True
        return False

    def begin(self) -> str:
        """Creates a session. Returns its stream's path, or "" if a topic was deleted since the last read."""
        body: dict[str, Any] = {
            "topics": {
                name: {"from_seq": seq, "match": self.follower.match} for name, seq in self.follower.seqs.items()
            },
            "include_tags": True,
            "limit": LIMIT,
            "heartbeat_ms": HEARTBEAT_MS,
        }
        try:
            return str(ask(self.server, "POST", path("watch"), None, body)["stream_url"])
        except TopicsError as error:
            if error.code != "topic_not_found":
                raise
            self.follower.wait_for(error.detail["topic"])
            return ""

    def listen(self, at: str) -> None:
        """Reads the stream until the session has expired, or an awaited topic needs a new session."""
        last_id: str | None = None
        while True:
            try:
                stream = self.server.stream(at, last_id, SILENT_SECONDS)
            except TopicsError as error:
                if error.code == "not_found":
                    return
                raise
            try:
                for frames in whole_frames(stream):
                    self.trouble = ""
                    last_id = id_of(frames) or last_id
                    self.follower.hear(frames)
                    if self.follower.awaited and time.monotonic() > self.looked + PAUSE_SECONDS and self.look():
                        return
            except urllib3.exceptions.HTTPError:
                self.tell_trouble("the connection of the stream ended")
            finally:
                stream.close()
            time.sleep(PAUSE_SECONDS)


def whole_frames(stream: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yields whole frames, one or more at a time, as they arrive."""
    left = b""
    while piece := stream.read1(PIECE_BYTES):
        whole, end, left = (left + piece).rpartition(b"\n\n")
        if end:
            yield whole + end


def id_of(frames: bytes) -> str | None:
    """Returns the last id in these frames, or None."""
    for line in reversed(frames.split(b"\n")):
        if line.startswith(b"id: "):
            return line[4:].decode()
    return None
