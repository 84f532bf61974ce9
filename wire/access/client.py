"""The address of a client, for counts of caps and of failed logins, and for the audit log (docs/security.md).

Behind our proxy (TOPICS_TLS_PROXY), it is the last of X-Forwarded-For.
"""

from __future__ import annotations

from django.conf import settings

from wire.access.forwarded import client, network

BEHIND_PROXY: bool = settings.TOPICS_TLS_PROXY


def address(peer: str, headers: dict[bytes, bytes]) -> str:
    """Returns the address of the client, see told(). Returns an empty text for an unreadable address."""
    return network(origin(peer, headers))


def told(peer: str, forwarded: str) -> str:
    """Returns the client's address for counts: an IPv4 address, or the network of an IPv6 address."""
    return network(client(peer, forwarded, behind_proxy=BEHIND_PROXY))


def origin(peer: str, headers: dict[bytes, bytes]) -> str:
    """Returns the client's address for the audit log, at most 64 characters, behind our proxy as the proxy wrote it."""
    if not BEHIND_PROXY:
        return peer
    return client(peer, headers.get(b"x-forwarded-for", b"").decode("latin-1"), behind_proxy=True)[:64]
