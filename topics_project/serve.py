"""One web process: the app (wire/app.py) behind HTTP/1.1 (http1/), from its start to its end."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from importlib import import_module

from django.conf import settings
from django.core.wsgi import get_wsgi_application

views = get_wsgi_application()

from base.neighbours import Neighbours  # noqa: E402
from base.tracing import tracing  # noqa: E402
from console.health import heartbeat  # noqa: E402
from console.live.streams import stream_at  # noqa: E402
from http1 import Handler, Limits, Server, Shares  # noqa: E402
from push.reports import counters  # noqa: E402
from sockets.serve import socket_at  # noqa: E402
from store import loop, threads  # noqa: E402
from topics_project import heartbeats, wiring  # noqa: E402
from topics_project.urls import ROUTES  # noqa: E402
from watch.hub import hub  # noqa: E402
from watch.outflow import UNSENT_BYTES  # noqa: E402
from wire import metrics  # noqa: E402
from wire.access.cors import Cors  # noqa: E402
from wire.app import App, refused  # noqa: E402
from wire.observers.request_log import RequestLog  # noqa: E402
from wire.observers.traced import Traced  # noqa: E402
from wire.process import pulse, shutdown, sockets  # noqa: E402

FLUSH_SECONDS = 1.0  # for clients to take their last answers, at the end of the process
LIMITS = Limits(
    body_bytes=2**62,  # the app limits bodies, after it knows the client
    in_flight=1,  # so pipelined appends of one connection are stored in their order
    idle_seconds=180.0,  # longer than proxies keep an idle connection: nginx 60 s, Caddy 120 s
    upload_grace_seconds=settings.TOPICS_UPLOAD_GRACE_MS / 1000,
    upload_bytes_a_second=settings.TOPICS_UPLOAD_LEAST_RATE,
    unsent_bytes=UNSENT_BYTES,
    write_seconds=sockets.STALLED_MS / 1000,
    cancels=False,  # an append whose client has disconnected is stored all the same
)


def handler() -> Handler:
    found: Handler = App(views, ROUTES, stream_at, socket_at, checks=[loop.check])
    if settings.CORS_ALLOWED_ORIGINS:
        found = Cors(found, frozenset(origin.encode() for origin in settings.CORS_ALLOWED_ORIGINS))
    if tracing.is_on:
        found = Traced(found)
    if settings.TOPICS_LOG != "off" or settings.TOPICS_SLOW_MS:
        found = RequestLog(found, every=settings.TOPICS_LOG != "off", slow_ms=settings.TOPICS_SLOW_MS)
    return found


async def serve(listener: socket.socket, shares: Shares, neighbours: Neighbours, slot: int) -> int:
    """Serves until SIGTERM or SIGINT. Returns the exit code."""
    running, ended = asyncio.get_running_loop(), asyncio.Event()
    metrics.process.use_slot(slot)
    wiring.wire_web()
    load_all()
    server = Server(handler(), limits=LIMITS, on_error=refused)
    for number in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(number, shutdown.begin, running, ended.set)
    pulse.start()
    hub().join(neighbours, slot)
    server.share(listener, shares, slot)
    await ended.wait()
    await server.drain(FLUSH_SECONDS)
    for close in (counters.note_stop, loop.close):
        await close()
    threads.quick.do(heartbeat.process.say_goodbye)
    threads.pages.close()
    threads.quick.close()
    tracing.close()
    return 0


def load_all() -> None:
    """Loads all long-lived modules and excludes their objects from garbage collection. A full collection took 80 ms."""
    import_module(settings.ROOT_URLCONF)
    tracing.load()
    heartbeat.start("web", threads.quick.do)
    heartbeats.in_loop("web")
    gc.collect()
    gc.freeze()
