"""The keys that sign identifiers, from the setting `GATEWAY_KEY` or `GATEWAY_KEY_FILE`.

All gateways of a configuration have the same keys. The first word is the current key. The second word is the previous key. The
previous key is accepted for a day after the change of the file, or as long as the setting contains the key.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

from base.refusal import Refusal
from base.secret import given, secret
from gateway.rewrite.ids import Seal
from gateway.watched_file import WatchedFiles

NAME = "GATEWAY_KEY"
FEWEST_CHARACTERS = 32
PREVIOUS_SECONDS = 24 * 3600


def seal(now: float | None = None) -> Seal | None:
    """Returns the seal of the configured keys, or None without keys. Raises Refusal for invalid keys."""
    if not given(NAME):
        return None
    keys = secret(NAME).split()
    if not 1 <= len(keys) <= 2 or any(len(key) < FEWEST_CHARACTERS for key in keys):
        raise Refusal(
            f"Invalid {NAME} with {len(keys)} keys: expected the current key, and at most the previous one,"
            f" of at least {FEWEST_CHARACTERS} characters."
        )
    found = Seal([key.encode() for key in keys])
    file = os.environ.get(f"{NAME}_FILE", "").strip()
    if file:
        found.keys = accepted(found, Path(file).stat().st_mtime, now)
    return found


def accepted(found: Seal, changed: float, now: float | None = None) -> tuple[bytes, ...]:
    """Returns the keys that still hold. `changed`: when their file was changed. Times are seconds since 1970."""
    is_recent = (time.time() if now is None else now) <= changed + PREVIOUS_SECONDS
    return found.keys if is_recent else found.keys[:1]


class WatchedKeys(WatchedFiles[Seal]):
    """The keys of `GATEWAY_KEY_FILE`, which follow changes of the file. The previous key ends without a change."""

    def accepted(self, now: float | None = None) -> tuple[bytes, ...]:
        return accepted(self.value, self.changed, now)


def watched() -> WatchedKeys | None:
    """Returns the keys of the file, or None without a file."""
    file = os.environ.get(f"{NAME}_FILE", "").strip()

    def read() -> Seal:
        found = seal()
        assert found is not None
        return found

    return WatchedKeys([Path(file)], read) if file else None


def random_seal() -> Seal:
    """Returns a seal for a gateway without a configured key. Its identifiers are valid until the gateway restarts."""
    return Seal([secrets.token_bytes(32)])
