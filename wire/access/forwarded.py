"""The address of a client, also in the header X-Forwarded-For of a proxy. The server and the gateway read and count it here."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

MOST_KNOWN = 4096  # addresses in the cache


def client(peer: str, forwarded: str, *, behind_proxy: bool) -> str:
    """Returns the address of the connection, or the last of X-Forwarded-For behind our proxy.

    The proxy appends its client's address. The client may have invented the addresses before it.
    """
    return forwarded.rpartition(",")[2].strip() if behind_proxy and forwarded else peer


@lru_cache(MOST_KNOWN)
def network(given: str) -> str:
    """Returns the address for counts, or for IPv6 its /64 network, because each customer of a provider has 2**64 addresses.

    Returns an empty text for an unreadable address.
    """
    try:
        known = ipaddress.ip_address(given)
    except ValueError:
        return ""
    if isinstance(known, ipaddress.IPv6Address):
        # A socket for both families shows IPv4 clients as mapped addresses. They must not count as one network.
        known = known.ipv4_mapped or ipaddress.IPv6Network((int(known), 64), strict=False).network_address
    return str(known)
