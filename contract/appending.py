"""What a client sends to append records, to a server or to a gateway in front of Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Annotated

import msgspec
from msgspec import Meta

from contract.config import TopicConfig
from contract.reading import Seq

NO_META = msgspec.Raw(b"null")
no_meta = repeat(NO_META).__next__  # always NO_META; a Python function would take longer than reading a record
OBJECT = Meta(extra_json_schema={"anyOf": [{"type": "object"}, {"type": "null"}]})


class NewRecordFields(msgspec.Struct):
    """A record as a client sends it. `data` and `meta` keep exactly the bytes that were sent."""

    data: msgspec.Raw
    """Any JSON value, also null, with at most 128 levels. Reads return it byte for byte. With `meta` at most 1 MiB. Half of a
    surrogate pair (half) is 400."""
    tag: str | None = None
    """A label for deletes, filters and routers: 1 to 256 bytes."""
    node: str | None = None
    """Name of the writer: 1 to 128 bytes. Null: the `node` of the append."""
    meta: Annotated[msgspec.Raw, OBJECT] = msgspec.field(default_factory=no_meta)
    """A small object beside the data: at most 16 KiB, 64 keys and 128 levels. Routers use the key `_topics_router`. A key of
    servers is 400."""


class AppendFields(msgspec.Struct):
    """The body of an append."""

    records: Sequence[NewRecordFields]
    """1 to 10000 records. The server appends all of them, in this order and next to each other, or none."""
    node: str | None = None
    """Name of the writer of records without a `node`: 1 to 128 bytes."""
    idempotency_key: str | None = None
    """Name of this append: 1 to 256 characters. If you send it again within the topic's `idempotency_window_ms`, the server
    appends nothing and answers the seqs of the first append. You can also send the header `Idempotency-Key`. If both are
    sent, this field wins."""
    idempotency_keys: list[str | None] | None = None
    """A key for each of `records`: 1 to 256 characters, or null for a record without a key. If the topic knows a key within
    `idempotency_window_ms`, the server does not append the record again, and the answer has the record's seq. Not together with
    `idempotency_key`. With the header `Idempotency-Key`, records without a key get one."""
    create: bool = True
    """True: the append creates an absent topic. False: if the topic is absent, the answer is 404."""
    config: TopicConfig | None = None
    """The config of a topic that the append creates. Needs the scope `admin`."""
    disable_backpressure: bool = False
    """Accepted, without an effect."""
    expected_head: Seq | None = None
    """The head that the topic must have. If the head differs, the server answers 409 `head_mismatch` and appends nothing. A
    new topic has the last head of its name, which is 0 unless a topic of the name was deleted."""
    return_seqs: bool = True
    """False leaves `seqs` out of the answer, like `return_seqs` of the query."""
    copy: bool = False
    """True: the records come from another server and keep their seqs. The body is then the body of a copy."""

    @property
    def plain(self) -> bool:
        """Whether the append can share a transaction, because no check comes before the write."""
        return not self.keyed and self.expected_head is None

    @property
    def keyed(self) -> bool:
        return self.idempotency_key is not None or self.idempotency_keys is not None


class AppendOptionFields(msgspec.Struct):
    """The query of an append."""

    return_seqs: bool = True
    """False leaves `seqs` out of the answer."""
