"""Valid names of topics, routers, tags, nodes and cursors (docs/wire.md). Names are byte-exact."""

from __future__ import annotations

import re
from collections.abc import Iterable

from base.errors import HIDDEN, InvalidRequest

TOPIC_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}", re.ASCII)
QUOTED = 80  # characters of an invalid name that its refusal quotes
ROUTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:>-]{0,254}", re.ASCII)


def check_topic_name(name: str, what: str = "topic") -> str:
    """Returns the name. Raises InvalidRequest if it is not a valid name of a topic."""
    if not TOPIC_NAME.fullmatch(name):
        raise InvalidRequest(
            f"invalid {what} {name[:QUOTED]!r}: expected 1 to 255 of A-Z a-z 0-9 . _ : - with a letter or digit first"
        )
    return name


def check_router_name(name: str, what: str = "router") -> str:
    """Returns the name. Raises InvalidRequest if it is not a valid name of a router."""
    if not ROUTER_NAME.fullmatch(name):
        raise InvalidRequest(
            f"invalid {what} {name[:QUOTED]!r}: expected 1 to 255 of A-Z a-z 0-9 . _ : > - with a letter or digit first"
        )
    return name


def check_no_nul(names: Iterable[str]) -> None:
    """Raises InvalidRequest if a name contains a NUL, which PostgreSQL's text cannot hold."""
    for name in names:
        if "\0" in name:
            raise InvalidRequest(f"invalid name {name[:QUOTED]!r}: a name cannot contain a NUL character (%00)")


def begins(column: str) -> str:
    """Returns the condition in SQL that a name begins with %(prefix)s, by a range of the index on names.

    No character of a name sorts behind "~". With `^@` alone, PostgreSQL reads all names once it has a plan for any prefix.
    """
    return f"{column} >= %(prefix)s AND {column} < %(prefix)s || '~' AND {column} ^@ %(prefix)s"


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    """Returns whether a key with these prefixes may see the name. A key without prefixes may see every name."""
    return not prefixes or name.startswith(prefixes)


def shown(name: str, prefixes: tuple[str, ...]) -> str:
    """Returns the name, or HIDDEN if a key with these prefixes may not see it."""
    return name if within(name, prefixes) else HIDDEN


def after_prefix(prefix: str) -> str | None:
    """Returns the first string, in byte order, above all strings that start with `prefix`, or None if none exists."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if code <= 0x10FFFF:
            return prefix[: end - 1] + chr(0xE000 if code == 0xD800 else code)
    return None
