"""What a client asks for when it reads a topic, of a server or of a gateway in front of Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from base.bounds import check_token
from base.errors import InvalidRequest

DEFAULT_LIMIT = 256
Seq = Annotated[int, Meta(ge=0, le=2**63 - 1)]
TagCondition = Annotated[tuple[Literal["tag"], Literal["Eq", "Glob"], str], Meta(title="TagCondition")]
Match = TagCondition | str
Order = Annotated[Literal["asc", "desc"], Meta(title="Order")]
Counted = Annotated[Literal["seqs", "matches"], Meta(title="Counted")]


class ReadFields(msgspec.Struct):
    """Fields of a read, in a body or in a query."""

    from_seq: Seq = 0
    """Read the records after this seq. Send the `next_from_seq` of the last answer. 0: from the beginning."""
    from_ts: Seq | None = None
    """In place of `from_seq`, in milliseconds since the epoch: start at the first record with this `$ts` or a later one."""
    limit: Annotated[int, Meta(ge=1, le=2**63 - 1)] = DEFAULT_LIMIT
    """Maximum number of records. `window` says which records it counts. More than 1000 means 1000."""
    order: Order = "asc"
    """`desc`: the newest record first. `from_seq` is then the seq before which the page begins, and 0 means the head. `limit`
    counts matches. Excludes `from_ts` and `wait_ms`."""
    tail: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    """The last N matches, in ascending order. More than 1000 means 1000. `next_from_seq` is the head. Excludes `from_seq`,
    `from_ts`, `order`, `limit` and `wait_ms`."""
    include_tags: bool = False
    """Whether records show their `$tag`."""
    include_meta: bool = True
    """Whether records show their `meta`."""
    wait_ms: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """Long poll: maximum milliseconds that the answer waits if the topic has nothing new. More than 30000 means 30000."""


class PageFields(ReadFields):
    """The body of a diff."""

    node: str | list[str] | None = None
    """Nodes of the reader, one or up to 1000. The answer leaves out the records of these nodes."""
    match: Match | None = None
    """Only records with a matching tag: `["tag", "Eq", "order:7"]`, `["tag", "Glob", "order:*"]`, or a string, which means
    `Eq`. A Glob is a prefix and one `*` at its end."""
    window: Counted = "seqs"
    """`seqs`: `limit` counts live records before `node` and `match` leave any out. `matches`: `limit` counts the records of the
    answer."""

    @property
    def counts_matches(self) -> bool:
        """Whether `limit` counts the records that `node` and `match` leave, and not those before."""
        return self.window == "matches" or self.is_backward

    @property
    def is_backward(self) -> bool:
        """Whether the read begins at the newest record."""
        return self.order == "desc" or self.tail is not None

    def check_start(self) -> None:
        """Raises InvalidRequest for fields that exclude each other."""
        if self.tail is None and self.from_ts is None and self.order == "asc":
            return  # as most reads
        start = {"from_seq": self.from_seq > 0, "from_ts": self.from_ts is not None}
        others: dict[str, bool] = {}
        chosen = "tail" if self.tail is not None else "order: desc" if self.order == "desc" else "from_ts"
        if self.tail is not None:
            others = start | {
                "order": self.order == "desc",
                "limit": self.limit != DEFAULT_LIMIT,
                "wait_ms": self.wait_ms > 0,
            }
        elif self.order == "desc":
            others = {"from_ts": start["from_ts"], "wait_ms": self.wait_ms > 0}
        elif self.from_ts is not None:
            others = {"from_seq": start["from_seq"]}
        for field, is_given in others.items():
            if is_given:
                raise InvalidRequest(f"{field} and {chosen} exclude each other: send one", field=field)


def nodes_of(node: str | list[str] | None, most: int, most_bytes: int) -> list[str]:
    """Returns the reader's own nodes: at most `most` of at most `most_bytes` each. Raises InvalidRequest."""
    nodes = [node] if isinstance(node, str) else node or []
    if len(nodes) > most:
        raise InvalidRequest(f"{len(nodes)} nodes: expected at most {most}")
    for each in nodes:
        check_token("node", each, most_bytes)
    return nodes


def predicate_of(match: Match | None, most_bytes: int) -> tuple[str | None, str | None]:
    """Returns a predicate on tags of at most `most_bytes` as (op, literal). The literal of a Glob lacks its `*`. Raises
    InvalidRequest."""
    if match is None:
        return None, None
    op, pattern = ("Eq", match) if isinstance(match, str) else (match[1], match[2])
    # A Glob can have a prefix as long as a tag, and the `*`.
    check_token("match", pattern, most_bytes + (op == "Glob"))
    if op == "Eq":
        return op, pattern
    if pattern.count("*") != 1 or not pattern.endswith("*"):
        raise InvalidRequest(f"invalid Glob {pattern[:80]!r}: expected a prefix without *, and one * at its end")
    return op, pattern[:-1]


def match_in_query(text: str, parsed: Callable[[bytes], Match]) -> Match:
    """Returns a predicate on tags from a query: a tag, or a predicate as JSON. Raises InvalidRequest.

    `parsed`: returns a predicate from JSON, or raises InvalidRequest.
    """
    if text.startswith("["):
        return parsed(text.encode())
    if text.endswith("*"):
        prefix, tag = (msgspec.json.encode(["tag", op, text[:300]]).decode() for op in ("Glob", "Eq"))
        raise InvalidRequest(
            f"match={text[:80]} can mean a prefix or a tag: send {prefix} for the prefix, or {tag} for the tag",
            field="match",
        )
    return text
