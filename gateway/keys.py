"""The keys that sign identifiers: the setting `GATEWAY_KEY`, or `GATEWAY_KEY_FILE`.

Every gateway of a configuration has the same keys. The first word signs. A second one is the key before it: what it has signed
holds for a day after the file was changed, or as long as the setting names it.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

from base.refusal import Refusal
from base.secret import given, secret
from gateway.ids import Seal

NAME = "GATEWAY_KEY"
FEWEST_CHARACTERS = 32
PREVIOUS_SECONDS = 24 * 3600


def seal(now: float | None = None) -> Seal | None:
    """Returns what signs identifiers, None where no key is given. Raises Refusal for keys that cannot be used."""
    if not given(NAME):
        return None
    keys = secret(NAME).split()
    if not 1 <= len(keys) <= 2 or any(len(key) < FEWEST_CHARACTERS for key in keys):
        raise Refusal(
            f"{NAME} holds {len(keys)} keys: give the current one and at most the one before it,"
            f" each of at least {FEWEST_CHARACTERS} characters."
        )
    file = os.environ.get(f"{NAME}_FILE", "").strip()
    if file and (time.time() if now is None else now) > Path(file).stat().st_mtime + PREVIOUS_SECONDS:
        keys = keys[:1]
    return Seal([key.encode() for key in keys])


def random_seal() -> Seal:
    """For a gateway of one host that was given no key: what it signs holds until it is started again."""
    return Seal([secrets.token_bytes(32)])
