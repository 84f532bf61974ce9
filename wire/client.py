"""The address of a client, by which caps and failed logins are counted (docs/security.md)."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from django.conf import settings

BEHIND_PROXY: bool = settings.TOPICS_TLS_PROXY
MOST_KNOWN = 4096  # addresses in the cache


def address(peer: str, headers: dict[bytes, bytes]) -> str:
    """Returns the address of the client, see told(). Returns an empty text for an unreadable address."""
    return told(peer, headers.get(b"x-forwarded-for", b"").decode("latin-1"))


def told(peer: str, forwarded: str) -> str:
    """Returns the address of the connection, or the last of X-Forwarded-For behind our proxy (TOPICS_TLS_PROXY).

    The proxy appends its client's address. The client may have invented the addresses before it.
    """
    return network(forwarded.rpartition(",")[2].strip() if BEHIND_PROXY and forwarded else peer)


@lru_cache(MOST_KNOWN)
def network(given: str) -> str:
    """Returns the address, or for IPv6 its /64 network, because each customer of a provider has 2**64 addresses."""
    try:
        known = ipaddress.ip_address(given)
    except ValueError:
        return ""
    if isinstance(known, ipaddress.IPv6Address):
        # A socket for both families shows IPv4 clients as mapped addresses. They must not count as one network.
        known = known.ipv4_mapped or ipaddress.IPv6Network((int(known), 64), strict=False).network_address
    return str(known)
