"""Who guesses passwords of the admin waits: django-axes counts failed logins by address (settings.AXES_…)."""

from __future__ import annotations

import ipaddress
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def address(request: HttpRequest) -> str | None:
    """Where a login comes from. Of IPv6 the network: everybody has 2**64 addresses to guess from."""
    given = request.META.get("REMOTE_ADDR", "")
    if settings.TOPICS_TLS_PROXY:
        # The proxy appends who asked it. What stands before that, the client may have made up.
        given = request.META.get("HTTP_X_FORWARDED_FOR", given).rpartition(",")[2].strip()
    try:
        known = ipaddress.ip_address(given)
    except ValueError:
        return None
    if known.version == 4:
        return given
    return str(ipaddress.ip_network((int(known), 64), strict=False).network_address)


def locked_out(request: HttpRequest, *_: Any) -> HttpResponse:
    """The answer to a login from an address that has failed too often."""
    seconds = settings.TOPICS_LOGIN_LOCK_SECONDS
    minutes = -(-seconds // 60)
    page = render(request, "admin/locked_out.html", {"title": "Too many failed logins", "minutes": minutes}, status=429)
    page["Retry-After"] = str(seconds)
    return page
