"""A setting of the environment that is on or off."""

from __future__ import annotations

import os

from base.refusal import Refusal

MEANINGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def flag(name: str, default: bool) -> bool:
    """Returns the setting, or the default if it is unset or empty. Raises Refusal for any other value."""
    given = os.environ.get(name, "").strip().lower()
    if given and given not in MEANINGS:
        raise Refusal(f"Invalid {name}={given}: expected 1 or 0.")
    return MEANINGS.get(given, default)
