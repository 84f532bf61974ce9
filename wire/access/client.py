"""The address of a client, for counts of caps and of failed logins, and for the audit log (docs/security.md).

Behind our proxy (TOPICS_TLS_PROXY), it is the last of X-Forwarded-For.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from django.conf import settings

from wire.access.forwarded import client

BEHIND_PROXY: bool = settings.TOPICS_TLS_PROXY
MOST_KNOWN = 4096  # addresses in the cache


def address(peer: str, headers: dict[bytes, bytes]) -> str:
    """Returns the address of the client, see told(). Returns an empty text for an unreadable address."""
    return told(peer, headers.get(b"x-forwarded-for", b"").decode("latin-1"))


def told(peer: str, forwarded: str) -> str:
    """Returns the client's address for counts: an IPv4 address, or the network of an IPv6 address."""
    return network(client(peer, forwarded, behind_proxy=BEHIND_PROXY))


def origin(peer: str, headers: dict[bytes, bytes]) -> str:
    """Returns the client's address for the audit log, at most 64 characters, behind our proxy as the proxy wrote it."""
    if not BEHIND_PROXY:
        return peer
    return client(peer, headers.get(b"x-forwarded-for", b"").decode("latin-1"), behind_proxy=True)[:64]


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
