"""The endpoints by path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from base.errors import NotFound
from contract.paths import Tree
from wire.api import Api
from wire.endpoint import Endpoint, pattern
from wire.request.accept import HTML
from wire.request.hints import NEAR, likeness
from wire.streams import Opening, StreamEndpoint

LONGEST_PATH = 600  # characters. Longer paths get no suggestion, and their lookup is not cached.
ANY = re.compile(r"<str:(\w+)>")
VERSION = re.compile(r"/+v\d+(?=/|$)", re.IGNORECASE)  # the beginning of a call's path, also misspelt


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
    """The table of all endpoints and streams. `others`: other paths of this server, for suggestions."""

    def __init__(
        self, endpoints: Iterable[Endpoint], streams: Sequence[StreamEndpoint] = (), others: Sequence[str] = ()
    ) -> None:
        self.others = (*(each.path for each in streams), *others)
        self.streams: Tree[StreamEndpoint] = Tree()
        for stream in streams:
            self.streams.add(stream.operation.paths[0].segments, stream)
        self.tree: Tree[dict[str, Endpoint]] = Tree()
        self.by_path: dict[str, dict[str, Endpoint]] = {}
        self.endpoints = tuple(endpoints)
        for each in self.endpoints:
            for path in each.operation.paths:
                self.add(pattern(path), path.method, each)

    def add(self, path: str, method: str, endpoint: Endpoint) -> None:
        methods = self.by_path.setdefault(path, {})
        assert method not in methods, f"{method} {path} is declared twice: remove one declaration"
        same = all(each.api is endpoint.api and each.media == endpoint.media for each in methods.values())
        assert same, f"the endpoints of {path} differ in their API or their media types"
        methods[method] = endpoint
        self.tree.add((None if ANY.fullmatch(each) else each for each in path.split("/")), methods)

    def find(self, path: str) -> Matched | None:
        """Returns the endpoints of a path, or None if it has none."""
        found = self.tree.find(path)
        if found is None:
            return None
        methods, arguments = found
        first = next(iter(methods.values()))
        return Matched(methods, arguments, first.api, (*first.media, HTML), first.route)

    def stream_at(self, path: str) -> Opening | None:
        """Returns the handler of a stream's path, or None for another path."""
        found = self.streams.find(path)
        if found is None:
            return None
        stream, names = found
        return lambda call: stream.open(call, *names)

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
        if len(rest) > 1 and None in self.tree.root.get("v0", {}).get(first, {}):
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


def misspelt(path: str) -> NotFound | None:
    """Returns the refusal of a path outside /v0 whose beginning looks like it (`//v0/…`, `/V0/…`, `/v1/…`), or None."""
    found = VERSION.match(path)
    if found is None or path.startswith("/v0"):
        return None
    right = "/v0" + quote(path[found.end() :], safe="/:>")[:LONGEST_PATH]
    return NotFound(f"unknown path: each call begins with /v0/: did you mean {right}?", path=right)
