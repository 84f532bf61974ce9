"""Prepares a host before its processes start: migrations, emptying of `ephemeral` topics, the first admin.

Every host can run the preparation, and several can at once: one host works while the others wait, and the others then find no
work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import InternalError, NotSupportedError, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from base.refusal import Refusal
from door import limits
from embedded.folder import keep_secret
from store import objects
from store.database import NO_WRITES
from store.sessions import wait_for_sessions
from topics import schema
from topics.upkeep.recovery import empty_ephemeral
from topics_project.operations.privileges import close_database

Say = Callable[[str], object]
# An advisory lock of PostgreSQL. The holder has no other lock yet, so a waiting host blocks no other work.
LOCK = 7301
# How long `prepare` waits for PostgreSQL. At the start of a machine, or after a failover, PostgreSQL can come later.
WAIT_SECONDS = 600.0
OPEN_DATABASE = (
    "every login of this database can take the locks of this server. Only a superuser can change this: "
    "run `manage.py prepare` once as a superuser (docs/security.md, Analysts)."
)


@contextmanager
def one_at_a_time(say: Say = print, wait_seconds: float = 0.0) -> Iterator[None]:
    """Holds a lock during the preparation. Before, it waits for a PostgreSQL that is away, and calls `say` with the reason.

    Django's migrations take no lock: two hosts at once would both create the same tables.
    """
    try:
        wait_for_sessions(say, wait_seconds)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
            yield
            # If the block fails, this process exits and releases the lock.
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
    except (OperationalError, psycopg.OperationalError) as error:
        raise Refusal(f"the database does not answer: {str(error).strip().splitlines()[0]}") from error
    except InternalError as error:
        if isinstance(error.__cause__, psycopg.errors.ReadOnlySqlTransaction):
            raise Refusal(f"{NO_WRITES}.") from error
        raise
    except NotSupportedError as error:  # Django reports a PostgreSQL that is too old
        raise Refusal(str(error)) from error


def prepare_database(say: Say) -> None:
    """Brings tables and SQL objects up to date, restricts its locks, and empties ephemeral topics.

    Raises Refusal if the schema cannot be ours, or lacks rights.
    """
    schema.make(connection)
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()) or objects.differing():
        call_command("migrate", interactive=False, verbosity=0)
    limits.save()
    if not close_database():
        say(OPEN_DATABASE)
    if empty_ephemeral() is None:
        say("other processes already serve this database: ephemeral topics keep their records.")


def given_admin() -> bool:
    """Creates the admin with TOPICS_ADMIN_PASSWORD if no superuser exists.

    Returns whether a superuser exists now. Raises Refusal.
    """
    users, password = get_user_model()._default_manager, settings.TOPICS_ADMIN_PASSWORD
    there = users.filter(is_superuser=True).exists()
    if password and not there:
        try:
            validate_password(password)
        except ValidationError as error:
            raise Refusal(f"Invalid TOPICS_ADMIN_PASSWORD: {' '.join(error.messages)}") from error
        users.create_superuser("admin", password=password)
    return bool(password) or there


def first_admin(data: Path) -> str:
    """Creates the admin if no superuser exists. Returns how to log in."""
    users, password = get_user_model()._default_manager, data / "admin-password"
    if not given_admin():
        users.create_superuser("admin", password=keep_secret(password))
    known = users.filter(username="admin").first()
    if known and kept(password) and opens(known, password):
        login = f"user admin, password {kept(password)}"
    else:
        login = "log in with your own user and password"
    return login


def opens(user: AbstractBaseUser, password: Path) -> bool:
    """Returns whether the file still has the user's password.

    Hashing the password takes most of a second of a core. So a result is stored beside the file, and stays valid while the
    database has the same hash.
    """
    found, secret = password.with_suffix(".checked"), kept(password)
    if kept(found) == f"{secret}\n{user.password}":
        return True
    if not user.check_password(secret):
        return False
    with suppress(OSError):
        found.write_text(f"{secret}\n{user.password}")
    return True


def kept(path: Path) -> str:
    """Returns a file's text. Returns "" if the file is missing or unreadable; the operator then knows the password."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
