"""Readers of environment variables. An invalid value ends the process with one line that names the fix.

A setting is declared once, in topics_project/settings/: the call that reads it says its default, its bounds, its meaning, and
when to change it. `SETTINGS` keeps the declarations, and topics_project/reference.py prints them as docs/settings.md.
"""

import difflib
import os
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import environ

from base import flag as flags
from base.refusal import Refusal
from base.secret import secret

MOST = 2**31 - 1  # the maximum of a number in PostgreSQL and in C libraries, except for bytes
MOST_BYTES = 2**62
# Variables for the supervisor's children, or for commands (shell/command.py, shell/calls/mirror.py). A shell that has them also
# starts other commands. `topics work` sets those of a job for the command that does it (shell/working.py).
ELSEWHERE = frozenset(
    f"TOPICS_{name}"
    for name in (
        "SUPERVISED",
        *("URL", "KEY", *(f"MIRROR_{name}" for name in ("URL", "TOPICS", "PREFIX", "HERE", "THERE", "KEY"))),
        *(f"JOB_{name}" for name in ("TOPIC", "SEQ", "TAG", "DELIVERIES")),
    )
)
# Kubernetes sets these variables in every container beside a service with the name topics.
SERVICE = re.compile(r"TOPICS_(SERVICE_|PORT$|PORT_)")
SETTINGS: dict[str, "Setting"] = {}
_env = environ.Env()


@dataclass(frozen=True)
class Setting:
    """A variable, as docs/settings.md tells it."""

    group: "Group"
    meaning: str
    change: str  # what follows "Change it if"; empty if the meaning or the group's note says enough
    default: Any
    values: str  # of a number: its unit, if the name lacks it
    shown: str  # the default in words, if it depends on the machine or on other settings
    bounds: tuple[int, int] | None = None  # of a number, inclusive
    is_secret: bool = False  # a file can give it, too (base/secret.py)


@dataclass(frozen=True, eq=False)
class Group:
    """A table of docs/settings.md. Each method reads a variable, and keeps what the call says of it (Setting)."""

    title: str
    note: str = ""  # what holds for each setting of the group

    def text(self, name: str, default: str, meaning: str, change: str, *, values: str, shown: str = "") -> str:
        SETTINGS[name] = Setting(self, meaning, change, default, values, shown)
        return str(_env.str(name, default=default)).strip()

    def words(self, name: str, default: str, meaning: str, change: str, *, values: str = "list") -> list[str]:
        return listed(self.text(name, default, meaning, change, values=values))

    def hidden(self, name: str, meaning: str, change: str, *, shown: str = "") -> str:
        """Returns a secret, from the variable or from the file in NAME_FILE (base/secret.py)."""
        SETTINGS[name] = Setting(self, meaning, change, "", "secret", shown, is_secret=True)
        return secret(name)

    def number(
        self,
        name: str,
        default: int,
        meaning: str,
        change: str = "",
        *,
        least: int = 0,
        most: int = MOST,
        unit: str = "",
        shown: str = "",
    ) -> int:
        SETTINGS[name] = Setting(self, meaning, change, default, unit, shown, (least, most))
        bounds = f"a whole number from {least} to {most}"
        try:
            value = int(_env.int(name, default=default))
        except ValueError as error:
            raise Refusal(f"Invalid {name}={os.environ[name]}: expected {bounds} (default {default}).") from error
        if not least <= value <= most:
            raise Refusal(f"Invalid {name}={value}: expected {bounds} (default {default}).")
        return value

    def flag(self, name: str, default: bool, meaning: str, change: str = "", *, shown: str = "") -> bool:
        SETTINGS[name] = Setting(self, meaning, change, default, "flag", shown)
        return flags.flag(name, default)

    def elsewhere(self, name: str, meaning: str, change: str, *, values: str, shown: str) -> None:
        """Declares a setting that other code reads, before these are read."""
        SETTINGS[name] = Setting(self, meaning, change, "", values, shown)


address = Group("Address and data")
access = Group("Keys, hosts and TLS")
processes = Group("Processes")
timeouts = Group("Timeouts of PostgreSQL", "After a timeout a request gets 503. `0`, if a row allows it: no limit.")
sizes = Group(
    "Sizes of requests and reads",
    "Change a size if your clients need more. A request above one of these sizes gets 400, unless the row says otherwise.",
)
caps = Group(
    "Caps",
    "Above a cap a request gets 429, unless the row says otherwise. `0`, if a row allows it: no limit. Change a cap if your "
    "clients reach it.",
)
bus = Group("Push bus")
console = Group("Console")
spark = Group("Spark")
GROUPS = (address, access, processes, timeouts, sizes, caps, bus, console, spark)  # in the order of the page


def listed(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


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
    known = {*ELSEWHERE, *SETTINGS, *(f"{name}_FILE" for name in SETTINGS if SETTINGS[name].is_secret)}
    for name in sorted(os.environ):
        if name.startswith("TOPICS_") and name not in known and not SERVICE.match(name):
            near = difflib.get_close_matches(name, known, 1, cutoff=0.8)
            raise Refusal(f"Unknown setting {name}: {f'did you mean {near[0]}?' if near else 'unset it.'}")
