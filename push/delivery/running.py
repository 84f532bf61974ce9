"""The dispatcher of this process and its webhooks, in a thread and event loop, with the calls that other threads may make."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future, wait

from push.delivery.dispatcher import STOP_SECONDS, Dispatcher
from push.reports import counters
from push.webhooks import engine


class Running:
    """Runs the dispatcher. The constructor returns once the dispatcher is ready."""

    def __init__(self) -> None:
        """Raises RuntimeError if no thread is free, and OSError for a file that cannot be read."""
        self.loop = asyncio.new_event_loop()
        self.ready: Future[None] = Future()
        self.thread = threading.Thread(target=self.run, name="dispatcher", daemon=True)
        self.thread.start()
        self.ready.result()

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self.main())
        except Exception as error:
            if self.ready.done():
                raise
            self.ready.set_exception(error)
        finally:
            self.loop.close()

    async def main(self) -> None:
        self.dispatcher = Dispatcher()
        webhooks = engine.Engine(self.dispatcher.store)
        listening = asyncio.create_task(self.dispatcher.listen())
        watching = asyncio.create_task(self.dispatcher.throttle.look_out())
        counting = asyncio.create_task(counters.flush_forever(self.dispatcher.store))
        counters.add("process", "status:start,type:worker")
        self.ended = asyncio.Event()
        serving = asyncio.create_task(engine.run(webhooks, self.ended))
        self.ready.set_result(None)
        await self.ended.wait()
        await serving
        for task in (listening, watching, counting):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.dispatcher.close()
        # The remaining tasks had time to end, or belong to connections that are closed by now.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.dispatcher.store.close()  # closes connections that were returned only now

    def sweep(self) -> int:
        """Runs Dispatcher.sweep() and returns its result, or 0 if the dispatcher ends meanwhile. Raises NotReady."""
        sweep = self.dispatcher.sweep()
        try:
            asked = asyncio.run_coroutine_threadsafe(sweep, self.loop)
        except RuntimeError:  # the loop has ended, and is closed
            sweep.close()
            return 0
        # A loop that is about to end can drop the sweep without a result. A worker that waited only for the result would
        # never end.
        while self.thread.is_alive() and not asked.done():
            wait([asked], timeout=1)
        return asked.result() if asked.done() and not asked.cancelled() else 0

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended before
            self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join(STOP_SECONDS + 2)


class Process:
    """The dispatcher of this process, after start()."""

    def __init__(self) -> None:
        self.running: Running | None = None
        self.starting = threading.Lock()

    def start(self) -> Running:
        """Returns the dispatcher, and starts one if none exists. After an error, each sweep tries again (push/tasks.py)."""
        with self.starting:
            if self.running is None:
                self.running = Running()
            return self.running

    def stop(self) -> None:
        if self.running is not None:
            self.running.stop()


process = Process()
start, stop = process.start, process.stop
