"""The calls of /v0 on one topic, as scripts."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from topics_client.codec import Codec
from topics_client.errors import CursorMoved, InvalidAnswer, NotFound
from topics_client.records import Appended, Cursor, New, Window
from topics_client.script import PATIENCE, Request, Script, call

T = TypeVar("T")
Filter = str | Sequence[str]


def address(kind: str, *names: str) -> str:
    """Returns the path of a call. Raises ValueError for a name that would lead to another path, as a cursor `..` to its topic."""
    for name in names:
        if not name.strip("."):
            raise ValueError(f"invalid name {name!r}: expected a name other than . and ..")
    return "/".join(("/v0", kind, *(quote(name, safe="") for name in names)))


def path(topic: str, *parts: str) -> str:
    return address("topics", topic, *parts)


def decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidAnswer(f"unexpected answer: {error}") from error


def append(
    topic: str,
    codec: Codec[Any],
    records: Sequence[New | msgspec.Raw],
    idempotency_key: str | None = None,
    expected_head: int | None = None,
    create: bool = True,
    patience: float = PATIENCE,
) -> Script[Appended]:
    """Appends all records or none. The idempotency key, by default a new one, makes the retries of this call append once.

    `records`: also as JSON.
    """
    body: dict[str, Any] = {"records": records, "idempotency_key": idempotency_key or secrets.token_hex(16)}
    if expected_head is not None:
        body["expected_head"] = expected_head
    if not create:
        body["create"] = False
    return decoded((yield from call(Request("POST", path(topic), codec.encode(body)), patience)), Appended)


def diff(
    topic: str,
    codec: Codec[T],
    from_seq: int,
    limit: int,
    match: Filter | None,
    wait_ms: int,
    patience: float = PATIENCE,
) -> Script[Window[T]]:
    """Reads the records after a seq. Waits up to `wait_ms` if there are none."""
    body: dict[str, Any] = {"from_seq": from_seq, "limit": limit, "include_tags": True, "wait_ms": wait_ms}
    if match is not None:
        body |= {"match": match, "window": "matches"}
    request = Request("POST", path(topic, "diff"), msgspec.json.encode(body), seconds=wait_ms / 1000)
    return codec.window((yield from call(request, patience)))


def claim(topic: str, node: str, limit: int, lease_ms: int, wait_ms: int, patience: float = PATIENCE) -> Script[bytes]:
    """Claims jobs, and returns the answer (Codec.jobs). Waits up to `wait_ms` if none is ready.

    If an answer is lost, its jobs come back when their leases end.
    """
    body = {"node": node, "max": limit, "lease_ms": lease_ms, "wait_ms": wait_ms}
    request = Request("POST", path(topic, "claim"), msgspec.json.encode(body), seconds=wait_ms / 1000)
    return (yield from call(request, patience))


class _Skipped(msgspec.Struct):
    skipped: list[int]


def settle(
    what: Literal["ack", "nack", "extend"], topic: str, node: str, leases: Mapping[int, str], **values: Any
) -> Script[list[int]]:
    """Acks, nacks or extends jobs, by seq with their lease ids. Returns the seqs that the node does not hold, or no longer.

    A second try after a lost answer of an ack or nack counts the jobs of the first try among them.
    """
    body = {"node": node, "seqs": list(leases), "lease_ids": list(leases.values()), **values}
    request = Request("POST", path(topic, what), msgspec.json.encode(body))
    return decoded((yield from call(request)), _Skipped).skipped


def get_cursor(topic: str, cursor: str, patience: float = PATIENCE) -> Script[Cursor | None]:
    """Returns a cursor, or None if the topic has none of this name."""
    try:
        return decoded((yield from call(Request("GET", path(topic, "cursors", cursor)), patience)), Cursor)
    except NotFound:
        return None


def set_cursor(
    topic: str,
    cursor: str,
    seq: int | None = None,
    at: str | None = None,
    expected_seq: int | None = None,
    patience: float = PATIENCE,
) -> Script[int]:
    """Sets a cursor, and returns its seq. Raises CursorMoved if it is not at `expected_seq`."""
    given = {"seq": seq, "at": at, "expected_seq": expected_seq}
    body = msgspec.json.encode({name: value for name, value in given.items() if value is not None})
    try:
        return decoded((yield from call(Request("PUT", path(topic, "cursors", cursor), body), patience)), Cursor).seq
    except CursorMoved as moved:
        # An earlier try of this call may have moved the cursor.
        if moved.is_again and seq is not None and moved.detail.get("seq") == seq:
            return seq
        raise
