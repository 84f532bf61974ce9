"""Which names this server answers to (ALLOWED_HOSTS), whichever way a request goes.

A page of a stranger may have its own name point at this machine; then the visitor's browser lets it read what the
server answers here. The Host header tells: it carries the page's name, whatever that points at.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from base.errors import InvalidRequest

# Whoever probes them (an orchestrator, a balancer) asks by an address that nobody knew when the settings were made.
PROBES = frozenset({"/v0/health", "/v0/ready", "/healthz", "/readyz"})


def refused(scope: dict[str, Any]) -> InvalidRequest | None:
    """Why this request is not answered; None when it is. One without a Host comes here with an empty one."""
    if scope["path"] in PROBES:
        return None
    for name, value in scope["headers"]:
        if name == b"host" and not allowed(value):
            host = value.decode("latin-1")
            return InvalidRequest(f"this server does not answer to the name {host!r}: add it to ALLOWED_HOSTS")
    return None


@lru_cache(1024)
def allowed(host: bytes) -> bool:
    domain, _ = split_domain_port(host.decode("latin-1"))
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)
