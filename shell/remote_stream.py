"""`tail -f` over HTTP: a watch session (docs/watch.md), and another one when a topic that was waited for is there.

The server may go away and come back: the stream goes on where it was, by its last id, or by a new session.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol

import urllib3

from base.errors import TopicsError
from shell.follower import Follower
from shell.printing import LIMIT, say
from shell.server import Server, ask, path

HEARTBEAT_MS = 1000  # a quiet stream says something so often: time to look for the topics that are waited for
SILENT_SECONDS = 15  # a stream that says nothing for so long is lost
PAUSE_SECONDS = 1.0
AWAY = ("not_ready", "shutting_down", "throttled")  # it is asked again
PIECE_BYTES = 64 * 1024


class Streaming(Server, Protocol):
    def stream(self, path: str, last_id: str | None, silent_seconds: float) -> urllib3.BaseHTTPResponse: ...


def follow(server: Streaming, follower: Follower) -> None:
    """Have it hear what comes behind what it knows, until somebody interrupts. Raises TopicsError."""
    following = Following(server, follower)
    while True:
        try:
            following.look()
            if follower.seqs and (at := following.begin()):
                following.listen(at)
        except TopicsError as error:
            if error.code not in AWAY:
                raise
            following.tell_trouble(error.message)
        time.sleep(PAUSE_SECONDS)


class Following:
    def __init__(self, server: Streaming, follower: Follower) -> None:
        self.server, self.follower = server, follower
        self.trouble = ""  # what was told since something was heard last
        self.looked = 0.0

    def tell_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            say(f"{trouble}: trying again")
        self.trouble = trouble

    def look(self) -> bool:
        """Returns whether one of the topics that are waited for is there now."""
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
        """The path of a new session's stream; empty where a topic was deleted since it was read."""
        body: dict[str, Any] = {
            "topics": {name: {"from_seq": seq} for name, seq in self.follower.seqs.items()},
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
        """Until the session is forgotten, or another one has to begin."""
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
                self.tell_trouble("the stream broke off")
            finally:
                stream.close()
            time.sleep(PAUSE_SECONDS)


def whole_frames(stream: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """One or more frames at a time, as they come."""
    left = b""
    while piece := stream.read1(PIECE_BYTES):
        whole, end, left = (left + piece).rpartition(b"\n\n")
        if end:
            yield whole + end


def id_of(frames: bytes) -> str | None:
    """The last id in them."""
    for line in reversed(frames.split(b"\n")):
        if line.startswith(b"id: "):
            return line[4:].decode()
    return None
