"""Readers of environment variables. An invalid value ends the process with one line that names the fix.

`DEFAULTS` and `BOUNDS` have the default and the bounds of every variable that was read. topics_project/reference.py builds
docs/settings.md from them.
"""

import difflib
import os
import re
from typing import Any
from urllib.parse import urlsplit

import environ

from base import flag as flags
from base.refusal import Refusal
from base.secret import secret

MOST = 2**31 - 1  # the maximum of a number in PostgreSQL and in C libraries, except for bytes
MOST_BYTES = 2**62
DEFAULTS: dict[str, Any] = {}
BOUNDS: dict[str, tuple[int, int]] = {}  # bounds of numbers, inclusive
SECRETS: set[str] = set()  # settings that a NAME_FILE can also give
# Variables for code that runs before the settings (embedded/folder.py, embedded/programs.py), for the supervisor's children, or
# for commands (shell/command.py, shell/calls/mirror.py). A shell that has them also starts other commands. `topics work` sets
# those of a job for the command that does it (shell/working.py).
ELSEWHERE = frozenset(
    f"TOPICS_{name}"
    for name in (
        *("DATA", "POSTGRESQL", "REDIS", "SUPERVISED"),
        *("URL", "KEY", *(f"MIRROR_{name}" for name in ("URL", "TOPICS", "PREFIX", "HERE", "THERE", "KEY"))),
        *(f"JOB_{name}" for name in ("TOPIC", "SEQ", "TAG", "DELIVERIES")),
    )
)
# Kubernetes sets these variables in every container beside a service with the name topics.
SERVICE = re.compile(r"TOPICS_(SERVICE_|PORT$|PORT_)")
_env = environ.Env()


def text(name: str, default: str = "") -> str:
    DEFAULTS[name] = default
    return str(_env.str(name, default=default)).strip()


def hidden(name: str) -> str:
    """Returns a secret, from the variable or from the file in NAME_FILE (base/secret.py)."""
    DEFAULTS[name] = ""
    SECRETS.add(name)
    return secret(name)


def words(name: str, default: str = "") -> list[str]:
    return listed(text(name, default))


def listed(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


def number(name: str, default: int, *, least: int = 0, most: int = MOST) -> int:
    DEFAULTS[name], BOUNDS[name] = default, (least, most)
    bounds = f"a whole number from {least} to {most}"
    try:
        value = int(_env.int(name, default=default))
    except ValueError as error:
        raise Refusal(f"Invalid {name}={os.environ[name]}: expected {bounds} (default {default}).") from error
    if not least <= value <= most:
        raise Refusal(f"Invalid {name}={value}: expected {bounds} (default {default}).")
    return value


def flag(name: str, default: bool) -> bool:
    DEFAULTS[name] = default
    return flags.flag(name, default)


def is_origin(value: str) -> bool:
    """Returns whether a browser could send `value` as `Origin`.

    Scheme and host must be in lower case. A port is allowed only if the port is not the scheme's own.
    """
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        return False
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    shown = "" if port is None else f":{port}"
    return bool(host and usual and port != usual and "*" not in host and value == f"{parts.scheme}://{host}{shown}")


def refuse_unknown() -> None:
    """Raises Refusal for an unknown TOPICS_ variable, which is probably a typo.

    Call this function after all settings are read.
    """
    known = {*ELSEWHERE, *DEFAULTS, *(f"{name}_FILE" for name in SECRETS)}
    for name in sorted(os.environ):
        if name.startswith("TOPICS_") and name not in known and not SERVICE.match(name):
            near = difflib.get_close_matches(name, known, 1, cutoff=0.8)
            raise Refusal(f"Unknown setting {name}: {f'did you mean {near[0]}?' if near else 'unset it.'}")
