"""The web application: the ASGI app (wire/app.py) and the endpoints that the ASGI app serves."""

from __future__ import annotations

import gc
import multiprocessing
import os
from importlib import import_module

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")

from django.conf import settings
from django.core.wsgi import get_wsgi_application

views = get_wsgi_application()

from base.processes import die_with_parent  # noqa: E402
from console import heartbeat  # noqa: E402
from console.streams import stream_at  # noqa: E402
from push import counters  # noqa: E402
from store import loop, threads  # noqa: E402
from topics_project import heartbeats, wiring  # noqa: E402
from topics_project.urls import ROUTES  # noqa: E402
from wire.app import App  # noqa: E402
from wire.cors import Application, Cors  # noqa: E402


def load_all() -> None:
    """Loads all long-lived modules and excludes their objects from garbage collection. A full collection took 80 ms."""
    import_module(settings.ROOT_URLCONF)
    heartbeat.start("web", threads.quick.do)
    heartbeats.in_loop("web")
    gc.collect()
    gc.freeze()


server = multiprocessing.parent_process()
if server and os.environ.get("TOPICS_SUPERVISED"):
    # A granian worker must exit with its server. Otherwise the worker would keep the port.
    die_with_parent(server.pid)
wiring.wire_web()
application: Application = App(
    views,
    ROUTES,
    stream_at,
    checks=[loop.check],
    closers=[counters.note_stop, loop.close],
    load_all=load_all,
)
if settings.CORS_ALLOWED_ORIGINS:
    application = Cors(application, frozenset(origin.encode() for origin in settings.CORS_ALLOWED_ORIGINS))
