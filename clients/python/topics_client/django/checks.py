"""System checks: where topics is, and with `check --database default` whether each handler has its topic and its rights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.db import DatabaseError, transaction

from topics_client.django.consume import CLAIM, POSITION, READ
from topics_client.django.handlers import Handler, handlers
from topics_client.django.places import connection, database, server


def check_settings(**_: Any) -> list[CheckMessage]:
    alias = database()
    if alias is None:
        try:
            server().close()
        except ValueError as error:
            return [Error(str(error), hint="Set TOPICS_URL, or TOPICS_DATABASE.", id="topics_client.E001")]
    elif alias not in settings.DATABASES:
        return [Error(f"TOPICS_DATABASE is {alias!r}, which DATABASES does not have.", id="topics_client.E002")]
    return []


def check_topics(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    alias = database()
    if alias is None or alias not in (databases or ()):
        return []
    return [warning for handler in handlers.values() if (warning := check(handler))]


def check(handler: Handler) -> Warning | None:
    """Does the first step of a handler, in a transaction that is rolled back.

    A warning, because `migrate` runs this check too, also in a database that has no topics yet.
    """
    try:
        with transaction.atomic(using=database()), connection().cursor() as cursor:
            if handler.group:
                cursor.execute(POSITION, [handler.topic, handler.group])
                cursor.execute(READ, [handler.topic, 0, 1])
            else:
                cursor.execute(CLAIM, [handler.topic, "check", handler.lease_ms])
            transaction.set_rollback(True, using=database())
    except DatabaseError as error:
        text = str(error).partition("\n")[0]
        return Warning(
            f"The handler of {handler.name} cannot work: {text}", obj=handler.function, id="topics_client.W001"
        )
    return None
