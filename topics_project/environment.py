"""Readers of the environment. A value that cannot be used ends the process with one line that says what to change.

`DEFAULTS` and `BOUNDS` keep the default and the bounds of every name that was read. docs/settings.md is made from them
(topics_project/reference.py).
"""

import difflib
import os
import re
from typing import Any
from urllib.parse import urlsplit

import environ

from base.refusal import Refusal
from base.secret import secret

MOST = 2**31 - 1  # what PostgreSQL, and the C below us, take for a number unless it is of bytes
MOST_BYTES = 2**62
DEFAULTS: dict[str, Any] = {}
BOUNDS: dict[str, tuple[int, int]] = {}  # of the numbers among them, both included
SECRETS: set[str] = set()  # those of them that NAME_FILE may give as well
# Read before there are settings (embedded/folder.py, embedded/programs.py), told to the supervisor's children, or for commands
# (shell/command.py).
ELSEWHERE = frozenset(
    ("TOPICS_DATA", "TOPICS_POSTGRESQL", "TOPICS_REDIS", "TOPICS_SUPERVISED", "TOPICS_URL", "TOPICS_KEY")
)
# Kubernetes puts these into every container beside a service that is called topics.
SERVICE = re.compile(r"TOPICS_(SERVICE_|PORT$|PORT_)")
_env = environ.Env()


def text(name: str, default: str = "") -> str:
    DEFAULTS[name] = default
    return str(_env.str(name, default=default)).strip()


def hidden(name: str) -> str:
    """A secret, which may also lie in the file that NAME_FILE names (base/secret.py)."""
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
        raise Refusal(f"{name}={os.environ[name]} is not {bounds}: change it, or unset it for {default}.") from error
    if not least <= value <= most:
        raise Refusal(f"{name}={value} is not {bounds}: change it, or unset it for {default}.")
    return value


def flag(name: str, default: bool) -> bool:
    DEFAULTS[name] = default
    given = os.environ.get(name, "").strip().lower()
    if given not in {"", "0", "1", "true", "false", "yes", "no", "on", "off"}:
        raise Refusal(f"{name}={given} is neither true nor false: set it to 1 or 0.")
    return bool(_env.bool(name)) if given else default


def is_origin(value: str) -> bool:
    """Whether it is what a browser sends as `Origin`: scheme and host in small letters, a port unless it is the scheme's own."""
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
    """To be called when all settings were read: a name of ours that nobody asked for is a mistake of whoever set it."""
    known = {*ELSEWHERE, *DEFAULTS, *(f"{name}_FILE" for name in SECRETS)}
    for name in sorted(os.environ):
        if name.startswith("TOPICS_") and name not in known and not SERVICE.match(name):
            near = difflib.get_close_matches(name, known, 1, cutoff=0.8)
            raise Refusal(f"{name} is no setting: {f'did you mean {near[0]}?' if near else 'unset it.'}")
