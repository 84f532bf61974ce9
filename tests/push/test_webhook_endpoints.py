"""Endpoints of webhooks that misbehave: many that hang or fail, some that close early, and names that change their addresses."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from typing import Any, Self

import pytest

from push.delivery import addresses
from push.delivery.caller import Caller, CallTarget, Outcome
from tests.instances import Instance, until
from tests.push.hooks import append, call, new_name

BAD, GOOD, RECORDS = 25, 200, 5
AT_ONCE = 24  # calls that hang, of each endpoint: together more than a pool of connections usually has


class Endpoints:
    """Many endpoints on one port, in a thread. The path decides: `/hang` answers nothing, `/fail` answers 500, others 200.
    `/close` and `/half` close the connection before the answer and within it."""

    def __init__(self) -> None:
        self.calls = Counter[str]()
        self.loop = asyncio.new_event_loop()
        self.over = asyncio.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=lambda: self.loop.run_until_complete(self.main()), daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join()
        self.loop.close()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def main(self) -> None:
        server = await asyncio.start_server(self.serve, sock=self.listener)
        await self.over.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.lower().split(b"\r\n")
                length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
                await reader.readexactly(length)
                path = head.split(b" ", 2)[1].decode()
                self.calls[path] += 1
                if path.startswith("/hang"):
                    await self.over.wait()
                if path.startswith(("/hang", "/close")):
                    return
                if path == "/half":
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
                    return
                status = b"500 No" if path.startswith("/fail") else b"200 OK"
                writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@pytest.mark.guarantee("H4")
def test_endpoints_that_hang_or_fail_hold_up_no_others(strict: Instance) -> None:
    topic, prefix = new_name("many"), new_name("endpoint")
    append(strict, topic, *range(AT_ONCE))

    def put(path: str, **config: Any) -> None:
        wanted = {"url": endpoints.url(path), "topics": [topic], "timeout_ms": 60_000, **config}
        assert call(strict, "PUT", f"webhooks/{prefix}{path.replace('/', '-')}", wanted).status == 201

    with Endpoints() as endpoints:
        # On a slow machine a call may hang for its whole time before the last one begins. None is repeated within the test.
        bad = {"from": "earliest", "order": "none", "concurrency": AT_ONCE, "retry": {"schedule_ms": [3_600_000]}}
        hanging, good = [f"/hang/{n}" for n in range(BAD)], [f"/good/{n}" for n in range(GOOD)]
        for path in good:
            put(path, concurrency=1)
        for n in range(BAD):
            put(f"/hang/{n}", **bad)
            put(f"/fail/{n}", **bad)
        until(lambda: all(endpoints.calls[path] == AT_ONCE for path in hanging), "all calls to hang", 180)
        append(strict, topic, *range(RECORDS))
        until(lambda: all(endpoints.calls[path] == RECORDS for path in good), "the records at all others", 180)
        assert all(endpoints.calls[path] == AT_ONCE for path in hanging), "they still hang"
    for path in [*hanging, *(f"/fail/{n}" for n in range(BAD))]:  # or they would try again beside other tests
        call(strict, "POST", f"webhooks/{prefix}{path.replace('/', '-')}/pause")


def post(*urls: str) -> list[Outcome]:
    """Returns the outcomes of calls, one after another, with one set of kept connections."""

    async def run() -> list[Outcome]:
        caller = Caller()
        try:
            return [await caller.post(CallTarget.of(url), [], b"{}", 5, lambda: None) for url in urls]
        finally:
            caller.close()

    return asyncio.run(run())


def test_an_endpoint_that_closes_early_has_failed_unless_it_had_answered() -> None:
    with Endpoints() as endpoints:
        closed, half, good = post(endpoints.url("/close"), endpoints.url("/half"), endpoints.url("/good"))
        assert (closed.status, half.status, half.answer, half.error) == (None, 200, "half", None)
        assert closed.error is not None
        assert good.status == 200
        post(endpoints.url("/good"), endpoints.url("/close"))
        assert endpoints.calls["/close"] <= 3, "a kept connection that ends is tried again once, on a new one"


def test_a_name_that_changes_its_address_is_judged_where_it_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name server answers with another address each time: the first may be called, and the others may not."""
    asked: list[str] = []
    resolve = socket.getaddrinfo

    def changing(host: Any, port: Any, *rest: Any) -> Any:
        if host != "changes.example":
            return resolve(host, port, *rest)
        asked.append(host)
        return resolve("127.0.0.1" if len(asked) == 1 else "169.254.169.254", port, *rest)

    monkeypatch.setattr(addresses.socket, "getaddrinfo", changing)
    with Endpoints() as endpoints:
        url = endpoints.url("/good", "changes.example")
        assert [each.status for each in post(url, url)] == [200, 200], "both on one connection, to the first address"
        assert len(asked) == 1
        (refused,) = post(url)
        assert refused.error == "169.254.169.254 is in PUSH_CALLBACK_DENY"
        assert endpoints.calls["/good"] == 2
