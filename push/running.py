"""The courier of this process, in a thread and an event loop of its own, and what other threads may ask of it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import wait

from push import counters
from push.courier import STOP_SECONDS, Courier


class Running:
    """Starts it, and returns when it runs."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.run, name="courier", daemon=True)
        self.thread.start()
        self.ready.wait()

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.main())
        self.loop.close()

    async def main(self) -> None:
        self.courier = Courier()
        listening = asyncio.create_task(self.courier.listen())
        watching = asyncio.create_task(self.courier.crowd.look_out())
        counting = asyncio.create_task(counters.flush_forever(self.courier.store))
        counters.add("process", "status:start,type:worker")
        self.ended = asyncio.Event()
        self.ready.set()
        await self.ended.wait()
        for task in (listening, watching, counting):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.courier.close()
        # What is left was given its moment, or looks after connections that are closed by now.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.courier.store.close()  # connections that came back only now

    def sweep(self) -> int:
        """Look after those that nobody is at. Returns how many, 0 where the courier ends meanwhile. Raises NotReady."""
        sweep = self.courier.sweep()
        try:
            asked = asyncio.run_coroutine_threadsafe(sweep, self.loop)
        except RuntimeError:  # the loop has ended, and is closed
            sweep.close()
            return 0
        # A loop that is about to end may leave undone what it was asked for, and tell nobody: a worker that waited for that
        # would not end by itself.
        while self.thread.is_alive() and not asked.done():
            wait([asked], timeout=1)
        return asked.result() if asked.done() and not asked.cancelled() else 0

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended before
            self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join(STOP_SECONDS + 2)


running: Running | None = None


def start() -> Running:
    """The courier of this process, started if it does not run."""
    global running
    if running is None:
        running = Running()
    return running
