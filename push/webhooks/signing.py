"""Signatures by the specification Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence

from base.errors import InvalidRequest

PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES = 24, 64  # of a secret's key, as the specification asks


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def key_of(secret: str) -> bytes:
    """Returns the key of a secret. Raises InvalidRequest."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise InvalidRequest(
            f"invalid secret: expected {PREFIX} and {LEAST_BYTES} to {MOST_BYTES} bytes in base64", field="secret"
        )
    return key


def signature(keys: Sequence[bytes], id: str, ts: int, body: bytes) -> bytes:
    """Returns the header webhook-signature, with a signature for each key. `ts` is in seconds."""
    signed = b"%b.%d.%b" % (id.encode(), ts, body)
    return b" ".join(b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)) for key in keys)
