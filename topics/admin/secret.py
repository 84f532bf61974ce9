"""The page that shows the secret of an API key: once, right after the secret was made."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from base.units import moment
from topics.admin.pages import DomainAdmin
from topics.models import ApiKey


def show_secret(admin: DomainAdmin, request: HttpRequest, key: ApiKey, secret: str, title: str) -> HttpResponse:
    """Returns the page with the secret. The page forbids browsers and proxies to store it."""
    shown = {"subtitle": str(key), "original": key, "secret": secret, "old_until": moment(key.previous_until_ts)}
    response = admin.page(request, "topics/apikey/created", title, **shown)
    response["Cache-Control"] = "no-store"
    return response
