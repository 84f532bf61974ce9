"""A member of a group as a process of its own: `python worker.py PORT TOPIC GROUP MEMBER SESSION_MS LOG`.

It writes one JSON line for each thing that happens to it, with the time by the machine's monotonic clock: joined, assigned,
shown, lost, commits (before the call), committed, refused and ended. SIGTERM makes it leave. It needs the standard library
alone, so that it starts fast.
"""

import contextlib
import http.client
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any


class Left(BaseException):
    """SIGTERM has arrived. A library that makes its own error of each Exception, as websockets does, must not take it."""


class Worker:
    LOST: tuple[type[Exception], ...] = (OSError, http.client.HTTPException)  # the connection broke

    def __init__(self, port: str, topic: str, group: str, member: str, session_ms: str, log: str) -> None:
        self.port, self.topic, self.group = int(port), topic, group
        self.member, self.session_ms = member, int(session_ms)
        self.path = f"/v0/topics/{topic}/groups/{group}"
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.calls: http.client.HTTPConnection | None = None
        self.session = 0
        self.done: dict[int, tuple[int, int]] = {}  # by share: the generation and the seq to commit

    def note(self, what: str, **data: Any) -> None:
        # One write, so that a kill leaves whole lines.
        line = json.dumps({"at": time.monotonic(), "session": self.session, "what": what, **data})
        os.write(self.log, line.encode() + b"\n")

    def run(self) -> None:
        while True:
            try:
                self.follow()
            except self.LOST:
                self.note("ended", why="connection")
            except Left:
                self.note("ended", why="leaves")
                self.call("leave", {"session": self.session})
                return
            time.sleep(0.05)

    def follow(self) -> None:
        """Follows one stream to its end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            query = f"member={self.member}&session_ms={self.session_ms}"
            connection.request("GET", f"{self.path}/stream?{query}", headers={"Accept": "text/event-stream"})
            response = connection.getresponse()
            if response.status != 200:
                raise http.client.HTTPException(response.read())
            for arrived in events(response):
                if not all(self.take(name, data) for name, data in arrived) or not self.commit():
                    break
        self.note("ended", why="stream")

    def take(self, name: str, data: Any) -> bool:
        """Handles one event. Returns False at the end of the session."""
        if name == "joined":
            self.session = data["session"]
            self.note("joined")
        elif name == "assigned":
            self.note("assigned", shares=data["shares"])
        elif name == "record":
            seqs = [record["$seq"] for record in data["records"]]
            self.note("shown", share=data["share"], generation=data["generation"], seqs=seqs)
            self.done[data["share"]] = data["generation"], data["to_seq"]
        elif name == "tombstone":
            self.note("lost", **data)
            self.done[data["share"]] = data["generation"], data["gap_to"]
        return name not in ("error", "topic-deleted")

    def commit(self) -> bool:
        """Commits all that arrived since the last commit. Returns False at the end of the session."""
        while self.done:
            wanted = [{"share": share, "generation": each[0], "seq": each[1]} for share, each in self.done.items()]
            self.note("commits", shares=wanted)
            status, answer = self.call("commit", {"session": self.session, "shares": wanted})
            if status == 200:
                self.note("committed", shares=wanted)
                self.done.clear()
                return True
            self.note("refused", shares=wanted, code=answer["error"]["code"])
            if answer["error"]["code"] != "share_moved":
                self.done.clear()
                return False
            for share in answer["error"]["detail"]["shares"]:
                del self.done[share]
        return True

    def call(self, name: str, body: Any) -> tuple[int, Any]:
        """Calls until the server answers: a commit may be repeated."""
        while True:
            try:
                if self.calls is None:
                    self.calls = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                self.calls.request(
                    "POST", f"{self.path}/{name}", json.dumps(body), {"Content-Type": "application/json"}
                )
                response = self.calls.getresponse()
                answer = json.loads(response.read())
                if response.status < 500:
                    return response.status, answer
            except (OSError, http.client.HTTPException):
                self.calls = None
            time.sleep(0.02)


def events(response: http.client.HTTPResponse) -> Iterator[list[tuple[str, Any]]]:
    """Yields name and data of the events that have arrived together."""
    buffer = b""
    while data := response.read1(65536):
        *blocks, buffer = (buffer + data).split(b"\n\n")
        arrived = []
        for block in blocks:
            fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if ": " in line and line[0] != ":")
            if "data" in fields:
                arrived.append((fields["event"], json.loads(fields["data"])))
        yield arrived


def leave(*_: Any) -> None:
    raise Left


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, leave)
    Worker(*sys.argv[1:]).run()
