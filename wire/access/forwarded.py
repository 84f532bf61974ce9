"""The header X-Forwarded-For, by which a proxy tells the address of its client. The server and the gateway read it here."""

from __future__ import annotations


def client(peer: str, forwarded: str, *, behind_proxy: bool) -> str:
    """Returns the address of the connection, or the last of X-Forwarded-For behind our proxy.

    The proxy appends its client's address. The client may have invented the addresses before it.
    """
    return forwarded.rpartition(",")[2].strip() if behind_proxy and forwarded else peer
