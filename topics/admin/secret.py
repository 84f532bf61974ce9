"""The page that shows the secret of an API key: once, right after the secret was made."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from base.units import moment
from topics.admin.pages import DomainAdmin
from topics.models import ApiKey


def show_secret(admin: DomainAdmin, request: HttpRequest, key: ApiKey, secret: str, title: str) -> HttpResponse:
    """Returns the page with the secret. The page forbids browsers and proxies to store it."""
    context = {
        **admin.admin_site.each_context(request),
        "title": title,
        "subtitle": str(key),
        "opts": admin.opts,
        "original": key,
        "secret": secret,
        "old_until": moment(key.previous_until_ts),
    }
    response = TemplateResponse(request, "admin/topics/apikey/created.html", context)
    response["Cache-Control"] = "no-store"
    return response
