"""The protocol, written once: a script is a generator that yields requests and waits, takes answers, and returns its result.

It knows neither sockets nor event loops. `run` drives a script in a thread, `drive` in an event loop.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

import httpx

from topics_client.errors import TOO_MANY, Refused, TopicsError, Unreachable, refusal

T = TypeVar("T")
PATIENCE = 60.0  # seconds: below the two minutes for which a topic remembers an idempotency key
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0  # seconds


class Request(NamedTuple):
    """A request. `seconds`: how long the server may hold the answer back, in addition to the timeout of the client."""

    method: str
    path: str
    body: bytes | None = None
    query: Mapping[str, str] = {}
    seconds: float = 0
    headers: Mapping[str, str] = {}
    is_stream: bool = False


class Pause(NamedTuple):
    seconds: float


class Bell(Protocol):
    """Wakes one script. If it rings while the script does not wait, the next wait ends at once."""

    def ring(self) -> None: ...


class ThreadBell:
    """A bell for a script that a thread runs. Any thread can ring it."""

    def __init__(self) -> None:
        self.rung = threading.Event()

    def ring(self) -> None:
        self.rung.set()

    def wait(self, seconds: float | None) -> None:
        self.rung.wait(seconds)
        self.rung.clear()


class AsyncBell:
    """A bell for a script of an event loop, which alone rings it."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    def ring(self) -> None:
        self.rung.set()

    async def wait(self, seconds: float | None) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.rung.wait(), seconds)
        self.rung.clear()


class Until(NamedTuple):
    """A wait for a bell, of at most `seconds`."""

    bell: Bell
    seconds: float | None = None


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after: float | None
    stream: Any = None


class Receive(NamedTuple):
    """Waits for the next bytes of a stream. The answer is empty at its end."""

    stream: Any


class Close(NamedTuple):
    stream: Any


Step = Request | Pause | Until | Receive | Close
Script = Generator[Step, Any, T]


def call(request: Request, patience: float = PATIENCE) -> Script[bytes]:
    """Sends a request until the server answers it, and returns the body.

    The pauses between tries grow, and are as long as the server asks at least. Raises Refused at once if a retry would be refused
    again. Raises the last error if the next try would come after `patience` seconds.
    """
    return (yield from _answer(request, patience)).body


def connect(request: Request, patience: float = PATIENCE) -> Script[Any]:
    """Opens a stream, with the patience of `call`. The result is for Receive and Close."""
    return (yield from _answer(request._replace(is_stream=True), patience)).stream


def _answer(request: Request, patience: float) -> Script[Answer]:
    began, tries, is_again = clock(), 0, False
    while True:
        try:
            answer: Answer = yield request
            if answer.status < 300:
                return answer
            raise refusal(answer.status, answer.body, answer.retry_after)
        except TopicsError as error:
            pause = max(error.retry_after or 0.0, backoff(tries))
            tries += 1
            error.is_again = is_again
            if not error.can_pass or clock() + pause > began + patience:
                raise
            is_again = is_again or not isinstance(error, Refused) or error.status != TOO_MANY
            yield Pause(pause)
            if clock() > began + patience:  # the machine has slept: the topic may have forgotten the idempotency key
                raise


def clock() -> float:
    """Returns the seconds of a clock that nothing sets. On Linux it also runs while the machine sleeps, as the server's does."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def backoff(tries: int) -> float:
    """Returns the pause after a number of failed tries. A part of it is random, so that clients do not come back together."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(tries, 10)) * random.uniform(0.5, 1)


class Stream:
    """An open answer, for a thread."""

    def __init__(self, response: httpx.Response) -> None:
        self.response, self.chunks = response, response.iter_bytes()

    def receive(self) -> bytes:
        return next(self.chunks, b"")


class AsyncStream:
    """An open answer, for an event loop."""

    def __init__(self, response: httpx.Response) -> None:
        self.response, self.chunks = response, response.aiter_bytes()

    async def receive(self) -> bytes:
        async for chunk in self.chunks:
            return chunk
        return b""


def run(script: Script[T], client: httpx.Client) -> T:
    """Drives a script in this thread."""
    try:
        step = next(script)
        while True:
            try:
                done = _done(step, client)
            except httpx.HTTPError as error:
                step = script.throw(unreachable(client, error))
            else:
                step = script.send(done)
    except StopIteration as end:
        result: T = end.value
        return result


def _done(step: Step, client: httpx.Client) -> Any:
    match step:
        case Pause(seconds):
            time.sleep(seconds)
        case Until(bell, seconds):
            assert isinstance(bell, ThreadBell)
            bell.wait(seconds)
        case Receive(stream):
            return stream.receive()
        case Close(stream):
            stream.response.close()
        case Request(is_stream=True):
            response = client.send(built(client, step), stream=True)
            if response.status_code < 300:
                return answered(response, Stream(response))
            response.read()
            return answered(response)
        case _:
            return answered(client.send(built(client, step)))
    return None


async def drive(script: Script[T], client: httpx.AsyncClient) -> T:
    """Drives a script in an event loop."""
    try:
        step = next(script)
        while True:
            try:
                done = await _done_async(step, client)
            except httpx.HTTPError as error:
                step = script.throw(unreachable(client, error))
            else:
                step = script.send(done)
    except StopIteration as end:
        result: T = end.value
        return result


async def _done_async(step: Step, client: httpx.AsyncClient) -> Any:
    match step:
        case Pause(seconds):
            await asyncio.sleep(seconds)
        case Until(bell, seconds):
            assert isinstance(bell, AsyncBell)
            await bell.wait(seconds)
        case Receive(stream):
            return await stream.receive()
        case Close(stream):
            await stream.response.aclose()
        case Request(is_stream=True):
            response = await client.send(built(client, step), stream=True)
            if response.status_code < 300:
                return answered(response, AsyncStream(response))
            await response.aread()
            return answered(response)
        case _:
            return answered(await client.send(built(client, step)))
    return None


def built(client: httpx.Client | httpx.AsyncClient, step: Request) -> httpx.Request:
    times = client.timeout
    read = None if times.read is None else times.read + step.seconds
    timeout = httpx.Timeout(connect=times.connect, read=read, write=times.write, pool=times.pool)
    headers = {**({"content-type": "application/json"} if step.body is not None else {}), **step.headers}
    return client.build_request(
        step.method, step.path, params=step.query or None, content=step.body, headers=headers, timeout=timeout
    )


def answered(response: httpx.Response, stream: Any = None) -> Answer:
    try:
        wait = float(response.headers.get("retry-after", ""))
    except ValueError:  # absent, or a date of a proxy
        wait = math.nan
    return Answer(response.status_code, b"" if stream else response.content, None if math.isnan(wait) else wait, stream)


def unreachable(client: httpx.Client | httpx.AsyncClient, error: httpx.HTTPError) -> TopicsError:
    return Unreachable(f"{client.base_url} does not answer: {error or type(error).__name__}")
