"""The endpoints by path. A lookup takes one step for each segment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from base.errors import NotFound
from wire.accept import HTML
from wire.api import Api
from wire.endpoint import Endpoint
from wire.hints import NEAR, likeness

LONGEST_PATH = 600  # characters. Longer paths get no suggestion, and their lookup is not cached.
ANY = re.compile(r"<str:(\w+)>")


class Matched(NamedTuple):
    """The endpoints of a path by method, the names in the path, and its media types. The last one is the browsable page."""

    endpoints: dict[str, Endpoint]
    arguments: tuple[str, ...]
    api: Api
    media: tuple[str, ...]
    route: str


class Near(NamedTuple):
    """A similar path and its similarity. The path is empty if there is none."""

    alike: float = 0.0
    path: str = ""


class Routes:
    """The table of all endpoints. `others`: other paths of this server, for suggestions."""

    def __init__(self, endpoints: Iterable[Endpoint], others: Sequence[str] = ()) -> None:
        self.others = others
        self.tree: dict[Any, Any] = {}
        self.by_path: dict[str, dict[str, Endpoint]] = {}
        for each in endpoints:
            self.add(each.path, each)

    def add(self, path: str, endpoint: Endpoint) -> None:
        node = self.tree
        for segment in path.split("/"):
            node = node.setdefault(None if ANY.fullmatch(segment) else segment, {})
        methods = self.by_path.setdefault(path, {})
        assert endpoint.method not in methods, f"{endpoint.method} {path} is declared twice: remove one declaration"
        same = all(each.api is endpoint.api and each.media == endpoint.media for each in methods.values())
        assert same, f"the endpoints of {path} differ in their API or their media types"
        methods[endpoint.method] = endpoint
        node[END] = methods

    def find(self, path: str) -> Matched | None:
        """Returns the endpoints of a path, or None if it has none."""
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
        first = next(iter(methods.values()))
        return Matched(methods, tuple(arguments), first.api, (*first.media, HTML), first.route)

    def missing(self, path: str) -> NotFound:
        """Returns the refusal of a path that does not exist, with a suggestion if a path is similar."""
        nothing = "unknown path"
        if len(path) > LONGEST_PATH:
            return NotFound(nothing)
        whole = path.rstrip("/")
        near = max((self.near(whole, pattern) for pattern in (*self.by_path, *self.others)), default=Near())
        if near.path and path != whole and near.path == whole:
            return NotFound(f"{nothing}: leave out the slash at the end", path=whole)
        if near.path:
            return NotFound(f"{nothing}: did you mean {near.path}?", path=near.path)
        first, *rest = whole[1:].split("/")[1:] or [""]
        if len(rest) > 1 and None in self.tree.get("v0", {}).get(first, {}):
            return NotFound(f"{nothing}: {'/'.join(rest)[:80]!r} contains '/', and a name cannot")
        return NotFound(nothing)

    def near(self, path: str, pattern: str) -> Near:
        """Returns the similarity of a path and a pattern, and the path in that pattern. Near() if a word is too different."""
        given, wanted = path[1:].split("/"), pattern.split("/")
        if len(given) != len(wanted) or given[0] != wanted[0]:
            return Near()
        right, alike = [], 0.0
        for segment, each in zip(given, wanted, strict=True):
            is_name = ANY.fullmatch(each) is not None
            like = 0.5 if is_name else likeness(segment, each)  # a correct word is better evidence than any name
            if not segment or like < (0 if is_name else NEAR):
                return Near()
            right.append(quote(segment, safe=":>") if is_name else each)
            alike += like
        return Near(alike, "/" + "/".join(right))

    def __iter__(self) -> Iterator[tuple[str, dict[str, Endpoint]]]:
        """Yields each path with its endpoints by method."""
        return iter(self.by_path.items())


END = ()  # a key that differs from every segment
