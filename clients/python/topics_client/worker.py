"""A worker of a queue: claims jobs, extends their leases while they run, acks them, and gives those back that fail.

jobs.py has its state and its two scripts. Here are its threads, and its tasks.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import httpx

from topics_client.codec import Codec
from topics_client.jobs import Jobs, Policy, Retry
from topics_client.records import Job
from topics_client.script import AsyncBell, Script, ThreadBell, drive, run
from topics_client.signals import on_loop_signal, on_signal
from topics_client.tracing import consumed

T = TypeVar("T")
# Python runs the handler of a signal that comes just before a wait only after the wait. So the main thread waits in short turns.
TURN_SECONDS = 0.5
Handler = TypeVar("Handler", bound=Callable[..., Any])


def new_node() -> str:
    """Returns a name that no other worker has."""
    return f"{socket.gethostname()[:80]}-{os.getpid()}-{secrets.token_hex(4)}"


class Base(Generic[T]):
    """The part of a worker that does not wait for anything."""

    def __init__(self, topic: str, codec: Codec[T], policy: Policy) -> None:
        self.topic, self.codec, self.policy = topic, codec, policy.checked()
        self.handler: Callable[[Job[T]], Any] | None = None
        self.jobs: Jobs[T] | None = None

    def __call__(self, handler: Handler) -> Handler:
        """Sets the function that does a job. If it returns, the job is done. If it raises, the job comes back later."""
        self.handler = handler
        return handler

    def fail(self, job: Job[T], error: BaseException | str, *, delay_ms: int | None = None) -> None:
        """Gives a job back with its error. In a loop, where no function raises it. `delay_ms`: as that of Retry."""
        if self.jobs is not None:
            self.jobs.settle(job, error if isinstance(error, BaseException) else Retry(error), delay_ms=delay_ms)

    def stop(self) -> None:
        """Ends the worker as SIGTERM does. Any thread can call it."""
        if self.jobs is not None:
            self.jobs.end()

    def chosen(self) -> Callable[[Job[T]], Any]:
        """Returns the function that does a job. Raises RuntimeError if there is none."""
        if self.handler is None:
            raise RuntimeError("the worker has no function: decorate one with the worker, or loop over the worker")
        return self.handler


class Worker(Base[T]):
    """A worker with threads. It runs the function that it decorates, or is a loop over jobs."""

    def __init__(self, topic: str, http: httpx.Client, codec: Codec[T], policy: Policy) -> None:
        super().__init__(topic, codec, policy)
        self.http = http

    def run(self) -> None:
        """Works until SIGTERM, SIGINT or `stop`: then the running jobs end, and all others are given back.

        Raises the server's refusal of a claim, such as TopicNotFound.
        """
        handler = self.chosen()
        taken: SimpleQueue[Job[T] | None] = SimpleQueue()
        jobs, threads = self._begin(taken, self.policy.concurrency)
        # A second signal ends the process, which would wait for threads that are no daemons.
        arguments = (handler, jobs, taken)
        hands = [threading.Thread(target=self._work, args=arguments, daemon=True) for _ in range(jobs.hands)]
        with on_signal(jobs.end):
            for hand in hands:
                hand.start()
            for hand in hands:
                while hand.is_alive():
                    hand.join(TURN_SECONDS)
            self._finish(jobs, *threads)

    def __iter__(self) -> Generator[Job[T], None, None]:
        """Yields jobs until SIGTERM, SIGINT or `stop`. A job is done when the loop asks for the next one, unless it was failed.

        If the loop ends within a job, the job is given back.
        """
        taken: SimpleQueue[Job[T] | None] = SimpleQueue()
        jobs, threads = self._begin(taken, 1)
        with on_signal(jobs.end):
            try:
                while (job := self._next(taken)) is not None:
                    if not jobs.take(job):
                        continue
                    began = time.monotonic()
                    try:
                        yield job
                    except GeneratorExit:
                        jobs.settle(job, Retry(delay_ms=0))
                        raise
                    jobs.settle(job, seconds=time.monotonic() - began)
            finally:
                jobs.end()
                self._finish(jobs, *threads)

    @staticmethod
    def _next(taken: SimpleQueue[Job[T] | None]) -> Job[T] | None:
        while True:
            with suppress(Empty):
                return taken.get(timeout=TURN_SECONDS)

    def _begin(
        self, taken: SimpleQueue[Job[T] | None], hands: int
    ) -> tuple[Jobs[T], tuple[threading.Thread, threading.Thread]]:
        jobs = self.jobs = Jobs(self.topic, self.codec, self.policy, hands, taken.put, ThreadBell)

        def start(script: Script[None], what: str) -> threading.Thread:
            thread = threading.Thread(target=self._run, args=(jobs, script), name=f"{what} {self.topic}", daemon=True)
            thread.start()
            return thread

        return jobs, (start(jobs.claims(), "claims of"), start(jobs.keep(), "keeper of"))

    def _run(self, jobs: Jobs[T], script: Script[None]) -> None:
        try:
            run(script, self.http)
        except BaseException as error:
            jobs.end(error)

    @staticmethod
    def _work(handler: Callable[[Job[T]], Any], jobs: Jobs[T], taken: SimpleQueue[Job[T] | None]) -> None:
        try:
            while (job := taken.get()) is not None:
                if jobs.take(job):
                    began = time.monotonic()
                    try:
                        with consumed(job, jobs.topic):
                            handler(job)
                    except Exception as error:
                        jobs.settle(job, error, time.monotonic() - began)
                    else:
                        jobs.settle(job, None, time.monotonic() - began)
        except BaseException as error:
            jobs.end(error)

    def _finish(self, jobs: Jobs[T], claims: threading.Thread, keeper: threading.Thread) -> None:
        claims.join()
        jobs.finish()
        keeper.join()
        if jobs.error is not None:
            raise jobs.error


class AsyncWorker(Base[T]):
    """As Worker, with tasks. The function is `async`. Only the loop's thread may call `stop` and `fail`."""

    def __init__(self, topic: str, http: httpx.AsyncClient, codec: Codec[T], policy: Policy) -> None:
        super().__init__(topic, codec, policy)
        self.http = http

    async def run(self) -> None:
        """As Worker.run. If its task is cancelled, the running jobs come back when their leases end."""
        handler = self.chosen()
        taken: asyncio.Queue[Job[T] | None] = asyncio.Queue()
        jobs, tasks = self._begin(taken, self.policy.concurrency)
        hands = [asyncio.create_task(self._work(handler, jobs, taken)) for _ in range(jobs.hands)]
        try:
            with on_loop_signal(jobs.end):
                await asyncio.gather(*hands)
                await self._finish(jobs, *tasks)
        finally:
            for task in (*hands, *tasks):
                task.cancel()

    async def __aiter__(self) -> AsyncGenerator[Job[T], None]:
        """As Worker.__iter__. Close it with `contextlib.aclosing` if the loop can end early: it gives its job back at once."""
        taken: asyncio.Queue[Job[T] | None] = asyncio.Queue()
        jobs, tasks = self._begin(taken, 1)
        with on_loop_signal(jobs.end):
            try:
                while (job := await taken.get()) is not None:
                    if not jobs.take(job):
                        continue
                    began = time.monotonic()
                    try:
                        yield job
                    except GeneratorExit:
                        jobs.settle(job, Retry(delay_ms=0))
                        raise
                    jobs.settle(job, seconds=time.monotonic() - began)
            finally:
                jobs.end()
                await self._finish(jobs, *tasks)

    def _begin(
        self, taken: asyncio.Queue[Job[T] | None], hands: int
    ) -> tuple[Jobs[T], tuple[asyncio.Task[None], asyncio.Task[None]]]:
        jobs = self.jobs = Jobs(self.topic, self.codec, self.policy, hands, taken.put_nowait, AsyncBell)
        start = asyncio.create_task
        return jobs, (start(self._run(jobs, jobs.claims())), start(self._run(jobs, jobs.keep())))

    async def _run(self, jobs: Jobs[T], script: Script[None]) -> None:
        try:
            await drive(script, self.http)
        except Exception as error:
            jobs.end(error)

    @staticmethod
    async def _work(
        handler: Callable[[Job[T]], Awaitable[Any]], jobs: Jobs[T], taken: asyncio.Queue[Job[T] | None]
    ) -> None:
        try:
            while (job := await taken.get()) is not None:
                if jobs.take(job):
                    began = time.monotonic()
                    try:
                        with consumed(job, jobs.topic):
                            await handler(job)
                    except Exception as error:
                        jobs.settle(job, error, time.monotonic() - began)
                    else:
                        jobs.settle(job, None, time.monotonic() - began)
        except Exception as error:
            jobs.end(error)

    async def _finish(self, jobs: Jobs[T], claims: asyncio.Task[None], keeper: asyncio.Task[None]) -> None:
        await claims
        jobs.finish()
        await keeper
        if jobs.error is not None:
            raise jobs.error
