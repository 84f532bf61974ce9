"""The database of an application, with topics in a schema of its own."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import urlsplit

from tests.instances import ROOT
from tests.migrations.databases import environment
from tests.preloaded import run

# For `manage.py shell`: moves all emitted records.
DRAIN = """
from django.db import connection
from outbox.relay import Relay
connection.ensure_connection()
relay = Relay()
while relay.round():
    pass
"""


def as_role(url: str, role: str, password: str = "secret", query: str = "") -> str:
    """A URL of the same database for another role. `query` has more parameters of libpq."""
    parts = urlsplit(url)
    netloc = f"{role}:{password}@{parts.netloc.rpartition('@')[2]}"
    return parts._replace(netloc=netloc, query="&".join(filter(None, (parts.query, query)))).geturl()


def manage(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs manage.py on this database."""
    return run([sys.executable, "manage.py", *arguments], environment(url), ROOT)
