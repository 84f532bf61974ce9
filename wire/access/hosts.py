"""The host names that this server answers to (ALLOWED_HOSTS), for every kind of request.

A hostile web page can let its own name point at this machine. Then the visitor's browser would let the page read this server's
answers. The Host header still has the page's name, so the server can refuse the request.
"""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from base.errors import InvalidRequest
from contract.operations import Operation

# An orchestrator or a load balancer probes these paths by an address that the settings cannot know.
PROBES = frozenset(each.path for probe in (Operation.GET_HEALTH, Operation.GET_READY) for each in probe.paths)


def refused(path: str, host: bytes) -> InvalidRequest | None:
    """Returns the refusal of a request with a wrong Host, or None for a valid one. A request without a Host has an empty one."""
    if path in PROBES or allowed(host):
        return None
    return InvalidRequest(f"unknown host name {host.decode('latin-1')!r}: add it to ALLOWED_HOSTS")


@lru_cache(1024)
def allowed(host: bytes) -> bool:
    domain, _ = split_domain_port(host.decode("latin-1"))
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)
