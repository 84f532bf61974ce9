"""Which endpoints there are at a path: one look for every segment of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from wire.dialect import Dialect
from wire.endpoint import Endpoint

MOST_PATHS, LONGEST_PATH = 2000, 600  # that are remembered
ANY = re.compile(r"<str:(\w+)>")


class Found(NamedTuple):
    """The endpoints of a path by method, and what stands in it where its route has a name."""

    endpoints: dict[str, Endpoint]
    arguments: tuple[str, ...]
    dialect: Dialect


class Routes:
    """The table of all endpoints."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self.tree: dict[Any, Any] = {}
        self.remembered = lru_cache(MOST_PATHS)(self.look_up)  # most requests are for few paths
        self.by_path: dict[str, dict[str, Endpoint]] = {}
        for each in endpoints:
            self.add(each.path, each)

    def add(self, path: str, endpoint: Endpoint) -> None:
        node = self.tree
        for segment in path.split("/"):
            node = node.setdefault(None if ANY.fullmatch(segment) else segment, {})
        methods = self.by_path.setdefault(path, {})
        assert endpoint.method not in methods, f"{endpoint.method} {path} is declared twice"
        assert all(other.dialect is endpoint.dialect for other in methods.values()), f"{path} speaks two dialects"
        methods[endpoint.method] = endpoint
        node[END] = methods

    def find(self, path: str) -> Found | None:
        """What is at the path; None: nothing that was declared."""
        return self.remembered(path) if len(path) <= LONGEST_PATH else self.look_up(path)

    def look_up(self, path: str) -> Found | None:
        node: dict[Any, Any] = self.tree
        arguments = []
        for segment in path[1:].split("/"):
            following = node.get(segment)
            if following is None:
                following = node.get(None)
                if following is None or not segment:
                    return None
                arguments.append(segment)
            node = following
        methods = node.get(END)
        if methods is None:
            return None
        return Found(methods, tuple(arguments), next(iter(methods.values())).dialect)

    def __iter__(self) -> Iterator[tuple[str, dict[str, Endpoint]]]:
        """Each path with its endpoints by method."""
        return iter(self.by_path.items())


END = ()  # no segment is that
