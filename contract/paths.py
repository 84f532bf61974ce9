"""Paths of requests. The server and the gateway split and decode every path here, so both see the same call in it.

A path is decoded once. Then "/" separates its segments. A segment is a fixed word or a name, and no name contains a "/". So an
encoded slash (`%2F`) is refused, because two readers could see different segments in such a path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar
from urllib.parse import quote, unquote

from base.errors import NotFound

T = TypeVar("T")
PLAIN = "/:@!$&'()*+,;=~"  # characters that a path can hold as they are
ADMIN = "/admin/"  # the operators' pages, which are no calls
END = ()  # a key that differs from every segment


def decoded(raw: str) -> str:
    """Returns the decoded path. Raises NotFound for an encoded slash."""
    if "%" not in raw:
        return raw
    path = unquote(raw)
    if "%2f" in raw.lower() and not path.startswith(ADMIN):
        raise NotFound("unknown path: it contains an encoded slash (%2F), and a name cannot contain '/'")
    return path


def canonical(raw: str) -> str:
    """Returns the path with only those characters encoded that must be. Raises NotFound for an encoded slash.

    Every reader sees the same segments in the result, whether it decodes before it splits or after.
    """
    if "%" not in raw or raw.startswith(ADMIN):
        return raw
    return quote(decoded(raw), safe=PLAIN)


class Tree(Generic[T]):
    """Values by path. A lookup takes one step for each segment."""

    def __init__(self) -> None:
        self.root: dict[Any, Any] = {}

    def add(self, segments: Iterable[str | None], value: T) -> None:
        """Adds a value. None stands for a name."""
        node = self.root
        for segment in segments:
            node = node.setdefault(segment, {})
        node[END] = value

    def find(self, path: str) -> tuple[T, tuple[str, ...]] | None:
        """Returns the value of a decoded path, with the names in the path. A fixed word wins over a name."""
        node, names = self.root, []
        for segment in path[1:].split("/"):
            following = node.get(segment)
            if following is None:
                following = node.get(None)
                if following is None or not segment:
                    return None
                names.append(segment)
            node = following
        return (node[END], tuple(names)) if END in node else None
