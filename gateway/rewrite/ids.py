"""Identifiers of one server, in the form that clients of a gateway see.

Nodes have numbers: `V = route.id + S · node.id`, with S routes. For a nested router, the inner number replaces the node's
number. So a number identifies one node at any depth, and a single route changes no number.

A server issues watch ids, cursors of pages and lease ids, and later receives them again. `Seal` wraps such an identifier with
its virtual node and signs the result. So a client can neither read a server's address from an identifier nor send an identifier
to another server.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import NamedTuple

SIGNATURE_BYTES = 16
NODE_BYTES = 8
MARK = "g_"  # prefix of a wrapped identifier


def to_virtual(routes: int, route_id: int, node_id: int) -> int:
    """Returns the virtual number of a node. `routes`: the number of the router's routes. Raises ValueError."""
    if not 0 <= route_id < routes:
        raise ValueError(f"route id {route_id} is not below {routes}")
    return route_id + routes * node_id


def from_virtual(routes: int, virtual_id: int) -> tuple[int, int]:
    """Returns (route_id, node_id). Inverse of to_virtual."""
    node_id, route_id = divmod(virtual_id, routes)
    return route_id, node_id


class Unwrapped(NamedTuple):
    node: int  # virtual id of the node that issued the identifier
    identifier: str


class Foreign(ValueError):
    """No key of this gateway has signed the identifier for this purpose."""


class Seal:
    """Wraps and signs identifiers. `keys`: first the current key, then keys that are still accepted."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("expected at least one key")
        self.keys = tuple(keys)

    def wrap(self, purpose: str, node: int, identifier: str) -> str:
        """Returns the identifier for the client. An identifier of one `purpose` is invalid for another purpose."""
        payload = node.to_bytes(NODE_BYTES, "big") + identifier.encode()
        return MARK + urlsafe_b64encode(sign(self.keys[0], purpose, payload) + payload).decode().rstrip("=")

    def unwrap(self, purpose: str, wrapped: str) -> Unwrapped:
        """Returns the node and its identifier. Raises Foreign."""
        try:
            encoded = wrapped.removeprefix(MARK).encode("ascii")
            sealed = urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))
            signature, payload = sealed[:SIGNATURE_BYTES], sealed[SIGNATURE_BYTES:]
            if not any(hmac.compare_digest(signature, sign(key, purpose, payload)) for key in self.keys):
                raise Foreign("not signed with a key of this gateway")
            return Unwrapped(int.from_bytes(payload[:NODE_BYTES], "big"), payload[NODE_BYTES:].decode())
        except Foreign:
            raise
        except ValueError as error:
            raise Foreign("not an identifier of this gateway") from error


def sign(key: bytes, purpose: str, payload: bytes) -> bytes:
    return hmac.digest(key, purpose.encode() + b"\0" + payload, hashlib.sha256)[:SIGNATURE_BYTES]
