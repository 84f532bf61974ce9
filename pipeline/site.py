"""The site in a Python worker of Spark's: what writes to a topic runs the same scripts there as the server does.

The code comes as a zip (pipeline/session.py). Libraries have to be installed where executors run: django, psycopg, msgspec, and
the rest of requirements.lock.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import tempfile
import zipfile
from pathlib import Path

from base.secret import given, put

_entered = ""  # the database that this process is on


def enter(dsn: str) -> None:
    """Have Django in this process, with its connection to that database. A worker of Spark's is used again, maybe for another."""
    global _entered
    if _entered == dsn:
        return
    put("DATABASE_URL", dsn)
    put("DATABASE_PASSWORD", "")  # it is in there
    if "REDIS_URL" in os.environ:  # as the driver told its executors; a file of it is the driver's
        put("REDIS_URL", os.environ["REDIS_URL"])
    if not given("SECRET_KEY"):
        put("SECRET_KEY", secrets.token_urlsafe(64))  # nothing is signed here
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")
    if not _entered:
        unpack()
        start()
    else:
        change(dsn)
    _entered = dsn


def unpack() -> None:
    """Settings read files that lie beside the code: where it came as a zip, they need it as a folder."""
    packed = next((parent for parent in Path(__file__).parents if parent.suffix == ".zip"), None)
    if packed is None:
        return
    folder = packed.with_name("topics-site")
    if not folder.exists():
        # Several workers of an executor may be here at once: each unpacks for itself, and one folder stays.
        own = tempfile.mkdtemp(dir=packed.parent)
        with zipfile.ZipFile(packed) as site:
            site.extractall(own)
        with contextlib.suppress(OSError):  # another was first, with the same files
            Path(own).rename(folder)
    sys.path.insert(0, str(folder))


def start() -> None:
    import django

    django.setup()
    from django.conf import settings

    from store import timeouts

    # As a Celery worker's connections: nothing that a task does may hold a lock for ever, or wait for one.
    timeouts.serve("spark", settings.TOPICS_WORKER_STATEMENT_TIMEOUT_MS)


def change(dsn: str) -> None:
    """Leave the database, and what was remembered of its topics, for another."""
    from django.db import connection
    from psycopg.conninfo import conninfo_to_dict

    from topics.cache import forget_all

    parts = conninfo_to_dict(dsn)
    named = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    connection.close()
    connection.settings_dict.update({setting: parts.pop(name, "") for setting, name in named.items()})
    connection.settings_dict["OPTIONS"] = connection.settings_dict["OPTIONS"] | parts
    forget_all()
