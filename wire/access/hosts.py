"""The host names that this server answers to (ALLOWED_HOSTS), for every kind of request.

A hostile web page can let its own name point at this machine. Then the visitor's browser would let the page read this server's
answers. The Host header still has the page's name, so the server can refuse the request.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from base.errors import InvalidRequest
from contract.operations import Operation

# An orchestrator or a load balancer probes these paths by an address that the settings cannot know.
PROBES = frozenset(each.path for probe in (Operation.GET_HEALTH, Operation.GET_READY) for each in probe.paths)

# Prometheus scrapes hosts and pods by addresses that the settings cannot know. The attack needs a name, because a page with an
# address as its host came from this address. So the metrics answer to any address. If keys are needed, they need one, too.
SCRAPED = frozenset(each.path for each in Operation.GET_METRICS.paths)


def refused(path: str, host: bytes) -> InvalidRequest | None:
    """Returns the refusal of a request with a wrong Host, or None for a valid one. A request without a Host has an empty one."""
    if path in PROBES or allowed(host) or (path in SCRAPED and is_address(host)):
        return None
    return InvalidRequest(f"unknown host name {host.decode('latin-1')!r}: add it to ALLOWED_HOSTS")


@lru_cache(1024)
def allowed(host: bytes) -> bool:
    domain, _ = split_domain_port(host.decode("latin-1"))
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


@lru_cache(1024)
def is_address(host: bytes) -> bool:
    domain, _ = split_domain_port(host.decode("latin-1"))
    try:
        ip_address(domain.strip("[]"))
    except ValueError:
        return False
    return True
