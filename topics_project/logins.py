"""Delays clients that guess admin passwords: django-axes counts failed logins by address (settings.AXES_…)."""

from __future__ import annotations

import logging
import math
from typing import Any

from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.signals import user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from wire.access.client import told

log = logging.getLogger(__name__)


def address(request: HttpRequest) -> str | None:
    """Returns the address of the client that logs in."""
    return told(request.META.get("REMOTE_ADDR", ""), request.META.get("HTTP_X_FORWARDED_FOR", "")) or None


@receiver(user_login_failed)
def note_failure(request: HttpRequest | None = None, **_: Any) -> None:
    """Writes a line with the address, by which an operator can block it. The line of django-axes has none."""
    if request is not None:
        log.warning("A login to the admin failed, from %s", address(request))


def locked_out(request: HttpRequest, *_: Any) -> HttpResponse:
    """Returns the answer to a login from an address with too many failures."""
    seconds = seconds_left(address(request))
    minutes = -(-seconds // 60)
    page = render(request, "admin/locked_out.html", {"title": "Too many failed logins", "minutes": minutes}, status=429)
    page["Retry-After"] = str(seconds)
    return page


def seconds_left(address: str | None) -> int:
    """Returns the seconds until the failures of an address no longer lock the address."""
    failures, most = 0, settings.AXES_FAILURE_LIMIT
    attempts = AccessAttempt.objects.filter(ip_address=address).order_by("-attempt_time")[:most]
    for attempt in attempts:
        failures += attempt.failures_since_start
        if failures >= most:
            left = attempt.attempt_time + settings.AXES_COOLOFF_TIME - timezone.now()
            return max(1, math.ceil(left.total_seconds()))
    return 1  # the lock has just ended
