"""What a topic, router, tag, node or cursor may be called (docs/wire.md). Names are byte-exact."""

from __future__ import annotations

import re

from django.conf import settings

from base.errors import InvalidRequest

TOPIC_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}", re.ASCII)
# Read once: looking a setting up takes longer than checking a name by it.
MAX_TAG_BYTES, MAX_NODE_BYTES = settings.TOPICS_MAX_TAG_BYTES, settings.TOPICS_MAX_NODE_BYTES
HIDDEN = "*"  # stands for a name that a key may not see; nothing may be called so
ROUTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:>-]{0,254}", re.ASCII)


def check_topic_name(name: str, what: str = "topic") -> str:
    """The name itself; raises InvalidRequest when no topic may be called so."""
    if not TOPIC_NAME.fullmatch(name):
        raise InvalidRequest(
            f"{what} {name[:80]!r} is no valid name: 1 to 255 of A-Z a-z 0-9 . _ : - are, with a letter or digit first"
        )
    return name


def check_router_name(name: str, what: str = "router") -> str:
    """The name itself; raises InvalidRequest when no router may be called so."""
    if not ROUTER_NAME.fullmatch(name):
        raise InvalidRequest(
            f"{what} {name[:80]!r} is no valid name: 1 to 255 of A-Z a-z 0-9 . _ : > - are, the first a letter or digit"
        )
    return name


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a key with these prefixes may see the name. Without prefixes it may see every name."""
    return not prefixes or name.startswith(prefixes)


def shown(name: str, prefixes: tuple[str, ...]) -> str:
    """The name, or what stands for it in answers to a key with these prefixes."""
    return name if within(name, prefixes) else HIDDEN


def check_node(node: str) -> None:
    check_token("node", node, MAX_NODE_BYTES)


def check_tag(tag: str) -> None:
    check_token("tag", tag, MAX_TAG_BYTES)


def check_token(what: str, value: str, most: int) -> None:
    """Raises InvalidRequest when the value is longer than `most` bytes, or holds what PostgreSQL's text cannot."""
    if len(value) * 4 > most and len(value.encode()) > most:
        raise InvalidRequest(f"{what} is {len(value.encode())} bytes long, at most {most} are allowed")
    if "\0" in value:
        raise InvalidRequest(f"{what} holds a NUL character")
