"""The last append under a prefix of keys (docs/wire.md), so that an interrupted client knows where to continue."""

from __future__ import annotations

import msgspec

from base.clock import now_ms
from base.errors import InvalidRequest, TopicNotFound
from contract.operations import Operation
from store.script import Script
from topics.api.records import TAG
from topics.api.shapes import TopicName
from topics.append.appending import last_keyed
from topics.sealed import DESCRIBED, told
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.request.parse import Request
from wire.schema import Performance

# A client must not find the keys of others letter by letter. A client with 16 characters of a key already knows the key.
LEAST_PREFIX = 16


class AppendsQuery(Request):
    key_prefix: str = ""
    """Start of the keys: 16 to 256 characters. A shorter one is 400, because you could guess the keys of others."""


class KeyedAppend(msgspec.Struct):
    """An append under an idempotency key that the topic remembers."""

    key: str
    """The idempotency key of the append."""
    first_seq: int
    """The seq of its first record."""
    last_seq: int
    """The seq of its last record."""
    ts: int
    """Time of the append, in milliseconds since the epoch."""


class LastAppendAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    last: KeyedAppend | None
    """The last append under a key with this prefix. Null: the topic remembers no such key."""
    performance: Performance


@Endpoint(
    Operation.GET_LAST_APPEND,
    scope="write",
    query=AppendsQuery,
    answers={200: LastAppendAnswer},
    errors=(TopicNotFound,),
    names={"key_prefix": "import-2026-11-22:"},
    tag=TAG,
    tells=DESCRIBED,
)
def last_append(call: Call[None, AppendsQuery], topic: str) -> Script[Answer]:
    """Get the last append under a key with this prefix.

    A client whose keys have a number or a position in a file continues after it.
    """
    prefix = call.query.key_prefix
    if not LEAST_PREFIX <= len(prefix) <= 256:
        raise InvalidRequest(f"invalid key_prefix: expected {LEAST_PREFIX} to 256 characters")
    is_sealed, row = yield from last_keyed(topic, prefix, now_ms())
    last = None if row is None else KeyedAppend(*row)
    return call.answer(
        LastAppendAnswer(topic=topic, last=last, performance=call.performance()), headers=told(is_sealed)
    )
