"""The state of a topic beside its records, in pages of rows, so that a move takes it to another server (docs/wire.md, "State").

Each kind of state is declared by the package that has its tables. A row is written into a sealed topic only, and a repeated write
changes nothing. So any number of processes can copy the state, and none of them changes a topic that has been opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from base.clock import now_ms
from base.errors import InvalidRequest
from base.slot import Slot
from store.script import Script, Statement, atomically
from topics import sealed
from topics.append.statements import SYNC
from topics.audit import as_json
from topics.cache import CachedTopic, as_known
from topics.heads import LOCK_CURRENT_HEAD
from topics.models import IdempotencyKey

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class StateKind(NamedTuple):
    """A kind of state.

    `row`: the shape of a row. `page`: returns the order and the JSON of the next rows, with `topic_id`, `after` (the order of the
    last row, or ''), `limit`, and `now` and `max_age` (ms). `check`: raises InvalidRequest for a row that a topic with this head
    cannot have. `write`: writes rows into a topic whose head is locked.
    `most`: rows of a page. `identity`: how many of the first fields of a row identify it.
    """

    row: type[msgspec.Struct]
    page: str
    check: Callable[[Any, int], None]
    write: Callable[[CachedTopic, Sequence[Any]], Script[None]]
    most: int
    identity: int = 1


kinds: Slot[Mapping[str, StateKind]] = Slot()


def kind_of(name: str) -> StateKind:
    """Raises InvalidRequest."""
    try:
        return kinds.value[name]
    except KeyError:
        raise InvalidRequest(f"unknown kind of state {name!r}: expected one of {', '.join(kinds.value)}") from None


def page_of_state(
    name: str, kind: StateKind, after: str, limit: int, max_age_ms: int | None
) -> Script[tuple[list[tuple[str, str]], bool]]:
    """Returns the order and the JSON of the next rows, and whether the topic is sealed. `max_age_ms`: of keys.

    Raises TopicNotFound.
    """

    def look(topic: CachedTopic) -> Script[tuple[list[Any], bool] | None]:
        if not (yield Statement(sealed.IS_CURRENT, (topic.id, topic.version), quick=True)):
            return None
        window = topic.idempotency_window_ms
        max_age = window if max_age_ms is None else min(window, max_age_ms)
        wanted = {"topic_id": topic.id, "after": after, "limit": limit, "now": now_ms(), "max_age": max_age}
        return (yield Statement(kind.page, wanted)), topic.sealed

    return (yield from as_known(name, look))


def parse_rows(kind: StateKind, rows: Sequence[msgspec.Raw]) -> list[Any]:
    """Raises InvalidRequest."""
    if len(rows) > kind.most:
        raise InvalidRequest(f"{len(rows)} rows: expected at most {kind.most}", field="rows")
    try:
        found = [msgspec.json.decode(row, type=kind.row) for row in rows]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"rows: {error}", field="rows") from error
    for row in found:
        for field in kind.row.__struct_fields__:
            value = getattr(row, field)
            if isinstance(value, str) and "\0" in value:
                raise InvalidRequest(f"rows: {field} contains a NUL character: remove it", field="rows")
    check_distinct(found, kind.row.__struct_fields__[: kind.identity])
    return found


def check_distinct(rows: Sequence[Any], identity: Sequence[str]) -> None:
    """Raises InvalidRequest if two rows are equal in these fields, because one statement cannot write a row twice."""
    if len({tuple(getattr(row, field) for field in identity) for row in rows}) < len(rows):
        raise InvalidRequest(f"rows: two rows have the same {' and '.join(identity)}: send each row once", field="rows")


def check_seqs(head_seq: int, **seqs: int | None) -> None:
    """Raises InvalidRequest if a seq is above the head: its record does not exist, so copy the records first."""
    for field, seq in seqs.items():
        if seq is not None and seq > head_seq:
            raise InvalidRequest(
                f"rows: {field} is {seq}, and the head is {head_seq}: copy the records first", field="rows"
            )


def write_state(name: str, kind: StateKind, rows: Sequence[Any]) -> Script[int]:
    """Writes rows of state into a sealed topic. Returns their number.

    Raises TopicNotFound or TopicNotSealed, and InvalidRequest for a row that the topic cannot have.
    """

    def write_once(topic: CachedTopic) -> Script[int | None]:
        yield Statement(SYNC, ("on",))
        head = yield Statement(LOCK_CURRENT_HEAD, (topic.id, topic.version))
        if not head:
            return None
        if not topic.sealed:
            raise sealed.not_sealed(topic.name)
        for row in rows:
            kind.check(row, head[0][0])
        yield from kind.write(topic, rows)
        return len(rows)

    def write(topic: CachedTopic) -> Script[int | None]:
        return (yield from atomically(write_once(topic), topic.id))

    return (yield from as_known(name, write))


class Key(msgspec.Struct, forbid_unknown_fields=True):
    """An idempotency key that a topic remembers."""

    key: Annotated[str, Meta(min_length=1, max_length=IdempotencyKey.MOST_CHARACTERS)]
    first_seq: Number
    last_seq: Number
    ts: Number
    digest: Annotated[str, Meta(pattern=r"^([0-9a-f]{32}|[0-9a-f]{64})\Z")] | None = None  # of HTTP, or of SQL


# A range of the primary key. Keys that the topic has forgotten are left out.
KEYS = """
SELECT key, json_build_object('key', key, 'first_seq', first_seq, 'last_seq', last_seq, 'ts', ts,
                              'digest', encode(digest, 'hex'))::text
  FROM topics_idempotencykey
 WHERE topic_id = %(topic_id)s AND key > %(after)s AND ts + 0 > %(now)s::bigint - %(max_age)s::bigint
 ORDER BY key LIMIT %(limit)s
"""
SAVE_KEYS = """
INSERT INTO topics_idempotencykey AS kept (topic_id, key, first_seq, last_seq, ts, digest)
SELECT %s, key, first_seq, last_seq, ts, decode(digest, 'hex')
  FROM json_to_recordset(%s::json) AS new (key text, first_seq bigint, last_seq bigint, ts bigint, digest text)
ON CONFLICT (topic_id, key) DO UPDATE
   SET first_seq = excluded.first_seq, last_seq = excluded.last_seq, ts = excluded.ts, digest = excluded.digest
"""


def check_key(row: Key, head_seq: int) -> None:
    # A move copies keys before the last records, so they can be above the head.
    if not 0 < row.first_seq <= row.last_seq:
        raise InvalidRequest(
            f"rows: first_seq is {row.first_seq}: expected 1 to last_seq, {row.last_seq}", field="rows"
        )


def save_keys(topic: CachedTopic, rows: Sequence[Key]) -> Script[None]:
    yield Statement(SAVE_KEYS, (topic.id, as_json(rows)))


KEYS_OF_APPENDS = StateKind(Key, KEYS, check_key, save_keys, most=10_000)
