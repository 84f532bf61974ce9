"""Starts the Django site in a Python worker of Spark. The worker then appends with the server's own scripts.

The code arrives as a zip (pipeline/session.py). The machines of executors need the libraries: django, psycopg, msgspec, and the
rest of requirements.lock.
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


class Entered:
    """The database of this process. Empty before the first enter()."""

    dsn = ""


entered = Entered()


def enter(dsn: str) -> None:
    """Sets up Django in this process with a connection to `dsn`. Spark reuses a worker, possibly for another database."""
    if entered.dsn == dsn:
        return
    put("DATABASE_URL", dsn)
    put("DATABASE_PASSWORD", "")  # the dsn contains the password
    if "REDIS_URL" in os.environ:  # from the driver; a REDIS_URL_FILE would be a path on the driver's machine
        put("REDIS_URL", os.environ["REDIS_URL"])
    if not given("SECRET_KEY"):
        put("SECRET_KEY", secrets.token_urlsafe(64))  # this process signs nothing
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")
    if not entered.dsn:
        unpack()
        start()
    else:
        change(dsn)
    entered.dsn = dsn


def unpack() -> None:
    """Unpacks the code if the code came as a zip, because the settings read files beside the code."""
    packed = next((parent for parent in Path(__file__).parents if parent.suffix == ".zip"), None)
    if packed is None:
        return
    folder = packed.with_name("topics-site")
    if not folder.exists():
        # Several workers of an executor may unpack at once. Each uses its own folder, and the first rename succeeds.
        own = tempfile.mkdtemp(dir=packed.parent)
        with zipfile.ZipFile(packed) as site:
            site.extractall(own)
        with contextlib.suppress(OSError):  # another worker has already renamed the same files
            Path(own).rename(folder)
    sys.path.insert(0, str(folder))


def start() -> None:
    import django

    django.setup()
    from django.conf import settings

    from store import timeouts

    # Uses the timeouts of a Celery worker, so that no task holds a lock or waits for a lock without limit.
    timeouts.serve("spark", settings.TOPICS_WORKER_STATEMENT_TIMEOUT_MS)


def change(dsn: str) -> None:
    """Switches to another database, and clears the cache of topics."""
    from django.db import connection
    from psycopg.conninfo import conninfo_to_dict

    from topics.cache import forget_all

    parts = conninfo_to_dict(dsn)
    named = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    connection.close()
    connection.settings_dict.update({setting: parts.pop(name, "") for setting, name in named.items()})
    connection.settings_dict["OPTIONS"] = connection.settings_dict["OPTIONS"] | parts
    forget_all()
