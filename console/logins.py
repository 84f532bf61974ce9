"""Deletes expired sessions of browsers, and old notes of django-axes, in bounded steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.sessions.models import Session
from django.db.models import QuerySet

STEP = 5_000  # rows deleted in one statement
KEEP = timedelta(days=90)  # notes of logins, and of failed ones


def drop_old(now: int) -> None:
    """Deletes sessions that have expired, and notes of logins that are older than KEEP."""
    at = datetime.fromtimestamp(now / 1000, UTC)
    drop(Session.objects.filter(expire_date__lt=at))
    for notes in (AccessAttempt, AccessFailureLog, AccessLog):
        drop(notes.objects.filter(attempt_time__lt=at - KEEP))


def drop(old: QuerySet[Any]) -> None:
    """Deletes these rows, a step at a time, so that no statement holds many locks."""
    while ids := list(old.values_list("pk", flat=True)[:STEP]):
        old.filter(pk__in=ids).delete()
