"""What is done before the processes of a host start: migrations, emptying the `ephemeral` topics, the first admin.

Every host may do it, and several at once: one does it while the others wait, and then find it done.
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
from django.db import NotSupportedError, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from base.refusal import Refusal
from store.sessions import check_sessions
from topics.upkeep.recovery import empty_ephemeral
from topics_project.embedded.folder import keep_secret
from topics_project.privileges import close_database

Say = Callable[[str], object]
# Of PostgreSQL's advisory locks. Who prepares holds nothing else yet, so whoever waits for it keeps nobody waiting.
LOCK = 7301
OPEN_DATABASE = (
    "every login of this database can take the locks of this server, because only a superuser can revoke that: "
    "run `manage.py prepare` once as a superuser (docs/security.md, Analysts)."
)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Django's migrations take no lock of their own: two hosts at once would each begin to make the same tables."""
    try:
        check_sessions()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
            yield
            # Where we fail, this process ends, and the lock with it.
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
    except (OperationalError, psycopg.OperationalError) as error:
        raise Refusal(f"the database does not answer: {str(error).strip().splitlines()[0]}") from error
    except NotSupportedError as error:  # it is too old, and Django says so
        raise Refusal(str(error)) from error


def prepare_database(say: Say) -> None:
    """Raises Refusal where the database does not answer."""
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", interactive=False, verbosity=0)
    if not close_database():
        say(OPEN_DATABASE)
    if empty_ephemeral() is None:
        say("others serve this database already: this joins them, and ephemeral topics keep their records.")


def given_admin() -> bool:
    """Make the admin of TOPICS_ADMIN_PASSWORD where nobody is one yet. Returns whether somebody is by now. Raises Refusal."""
    users, password = get_user_model()._default_manager, settings.TOPICS_ADMIN_PASSWORD
    there = users.filter(is_superuser=True).exists()
    if password and not there:
        try:
            validate_password(password)
        except ValidationError as error:
            raise Refusal(f"TOPICS_ADMIN_PASSWORD cannot be used: {' '.join(error.messages)}") from error
        users.create_superuser("admin", password=password)
    return bool(password) or there


def first_admin(data: Path) -> str:
    """Make the admin where nobody is one yet, and say how to log in."""
    users, password = get_user_model()._default_manager, data / "admin-password"
    if not given_admin():
        users.create_superuser("admin", password=keep_secret(password))
    known = users.filter(username="admin").first()
    if known and kept(password) and opens(known, password):
        login = f"user admin, password {kept(password)}"
    else:
        login = "with your own user and password"
    return login


def opens(user: AbstractBaseUser, password: Path) -> bool:
    """Whether the user's password is still the one in this file. To hash it takes most of a second of a core: what was
    found once is kept beside it, and holds for as long as the database has that very hash."""
    found, secret = password.with_suffix(".checked"), kept(password)
    if kept(found) == f"{secret}\n{user.password}":
        return True
    if not user.check_password(secret):
        return False
    with suppress(OSError):
        found.write_text(f"{secret}\n{user.password}")
    return True


def kept(path: Path) -> str:
    """Returns a file's text. One that is absent or cannot be read is empty: then the operator knows the password."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
