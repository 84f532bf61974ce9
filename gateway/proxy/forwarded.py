"""The client of a request, as the gateway tells it to servers: one address and one scheme (docs/gateway.md).

A client can write any address into the headers of a proxy, and a server can write the address into its audit log. So no such
header passes the gateway as the client sent it.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.api import Headers
from wire.access import forwarded

FOR, PROTO = b"x-forwarded-for", b"x-forwarded-proto"
SCHEMES = (b"http", b"https")


class Client(NamedTuple):
    """`scheme`: http or https."""

    address: str
    scheme: bytes

    @property
    def headers(self) -> Headers:
        """The headers for a server."""
        return [(FOR, self.address.encode("latin-1")), (PROTO, self.scheme)]


def client_of(peer: str, scheme: bytes, headers: Headers, *, behind_proxy: bool) -> Client:
    """Returns the client of a request. `peer`, `scheme`: of the connection. Behind a proxy, the client is in its headers."""
    if not behind_proxy:
        return Client(peer, scheme)
    named = dict(headers)
    told = named.get(PROTO, b"").rpartition(b",")[2].strip().lower()
    address = forwarded.client(peer, named.get(FOR, b"").decode("latin-1"), behind_proxy=True)
    return Client(address, told if told in SCHEMES else scheme)


def of_a_proxy(name: bytes) -> bool:
    """Returns whether a header tells about the client of a proxy. `name`: in lower case."""
    return name.startswith(b"x-forwarded-") or name in (b"forwarded", b"x-real-ip")
