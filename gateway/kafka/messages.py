"""Records as messages of Kafka, and messages as records.

| record | message |
|---|---|
| `data` | the value, byte for byte |
| `$tag` | the key |
| `$node` | the header `topics.node` |
| `meta` | the header `topics.meta`, byte for byte. Of other writers: all headers, as an object |
| `$seq`, `$ts` | the offset + 1, the timestamp |

What other writers wrote is shown, too: no value is JSON that says `null`, and a value that is not JSON is `{"$base64": "…"}`. So
this module alone decides what a value is, and no message can hold up a reader.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from operator import methodcaller
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Message

from base.bounds import check_meta, check_token
from base.depth import SHALLOW_BYTES, check_depth
from base.errors import BatchTooLarge, InvalidRequest, RecordTooLarge
from contract.appending import NO_META
from gateway.kafka.client import offset_of
from gateway.kafka.lanes import MessageHeaders, NewMessage
from gateway.kafka.shapes import MAX_NODE_BYTES, MAX_TAG_BYTES, GivenRecord

NODE, META = "topics.node", "topics.meta"
MAX_RECORDS, MAX_RECORD_BYTES = 10_000, 1024 * 1024
MAX_META_BYTES, MAX_META_KEYS = 16 * 1024, 64
OVERHEAD_BYTES = 80  # of a message in a batch: lengths, and the names of the headers
PART_BYTES = 64  # of a value or a header in memory, without its content
NULL = b"null"
# For a name that is not UTF-8, confluent-kafka returns a broken list and an exception together. The interpreter does not always
# check for that, and then the process crashes. This call always checks, and raises SystemError.
HEADERS: Callable[[Message], Any] = methodcaller("headers")


class Shown(NamedTuple):
    """A message as a record. Its parts are JSON, and absent parts None."""

    seq: int
    ts: int
    tag: str | None
    node: str | None
    meta: bytes | None
    data: bytes

    @property
    def size(self) -> int:
        """The bytes of data and meta, which limits of bytes count."""
        return len(self.data) + len(self.meta or b"")

    def json(self, *, tags: bool, meta: bool, data: bool = True) -> bytes:
        text = b'{"$seq":%d,"$ts":%d' % (self.seq, self.ts)
        if self.node is not None:
            text += b',"$node":' + msgspec.json.encode(self.node)
        if tags and self.tag is not None:
            text += b',"$tag":' + msgspec.json.encode(self.tag)
        if meta and self.meta is not None:
            text += b',"meta":' + self.meta
        return text + b',"data":' + self.data + b"}" if data else text + b"}"


def shown(message: Message) -> Shown:
    """Returns a message as a record."""
    node, meta = of_headers(headers_of(message))
    key = message.key()
    tag = None if key is None else text_of(bytes_of(key) or b"", MAX_TAG_BYTES)
    return Shown(
        offset_of(message) + 1, max(message.timestamp()[1], 0), tag, node, meta, json_of(bytes_of(message.value()))
    )


def headers_of(message: Message) -> Iterable[tuple[str, str | bytes | None]]:
    """Returns the headers of a message, or none if the name of one is not UTF-8."""
    try:
        found = HEADERS(message)
    except (SystemError, UnicodeDecodeError):
        message.set_headers([])  # the message has kept the broken list for the next call
        return ()
    return found.items() if isinstance(found, dict) else found or ()


def size_of(message: Message) -> int:
    """Returns the bytes of a message, with some for each part of it. It is about the size of its record."""
    headers = sum(len(name) + len(value or b"") + PART_BYTES for name, value in headers_of(message))
    return PART_BYTES + len(message.value() or b"") + headers


def of_headers(headers: Iterable[tuple[str, str | bytes | None]]) -> tuple[str | None, bytes | None]:
    """Returns the node and the meta of a message."""
    node = meta = None
    others: dict[str, Any] = {}
    for name, given in headers:
        value = given.encode() if isinstance(given, str) else given
        if name == NODE:
            node = text_of(value or b"", MAX_NODE_BYTES)
        elif name == META:
            meta = value if value is not None and is_json(value) and value.lstrip()[:1] == b"{" else None
        else:
            text = None if value is None else text_of(value, MAX_META_BYTES)
            others[name] = text if text is not None or not value else base64_of(value)
    if meta is None and others:
        meta = msgspec.json.encode(others)
    return node, meta


def text_of(value: bytes, most: int) -> str | None:
    """Returns bytes as a tag or a node, or None if no record can have it."""
    try:
        return value.decode() if len(value) <= most and b"\0" not in value else None
    except UnicodeDecodeError:
        return None


def json_of(value: bytes | None) -> bytes:
    """Returns a value as JSON."""
    if value is None:
        return NULL
    return value if is_json(value) else msgspec.json.encode(base64_of(value))


def is_json(value: bytes) -> bool:
    """Returns whether readers of `/v0` can read a value: UTF-8, valid, and not too deep."""
    try:
        if not value.isascii():
            value.decode()
        msgspec.json.decode(value, type=msgspec.Raw)
        check_depth("a value", value)
    except (msgspec.MsgspecError, UnicodeDecodeError, InvalidRequest, RecursionError):
        return False
    return True


def bytes_of(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def base64_of(value: bytes) -> dict[str, str]:
    return {"$base64": b64encode(value).decode()}


def messages_of(records: Sequence[GivenRecord], node: str | None, most_bytes: int) -> list[NewMessage]:
    """Returns the messages of an append, which fit into one batch of `most_bytes`.

    Raises InvalidRequest, BatchTooLarge, RecordTooLarge.
    """
    if not records:
        raise InvalidRequest("records is empty: expected at least 1 record")
    if len(records) > MAX_RECORDS:
        raise BatchTooLarge(f"{len(records)} records in one append: expected at most {MAX_RECORDS}", max=MAX_RECORDS)
    if node is not None:
        check_token("node", node, MAX_NODE_BYTES)
    found: list[NewMessage] = []
    headers: MessageHeaders = [] if node is None else [(NODE, node.encode())]
    overhead = OVERHEAD_BYTES + (0 if node is None else MAX_NODE_BYTES)
    try:
        for record in records:
            size = len(record.data)
            if record.tag is record.node is None and record.meta is NO_META and size <= SHALLOW_BYTES:
                found.append(NewMessage(bytes(record.data), None, headers, size + overhead))
            else:
                found.append(message_of(record, node))
    except InvalidRequest as error:
        error.detail["index"] = len(found)
        raise
    for index, each in enumerate(found):
        if each.size - OVERHEAD_BYTES > min(MAX_RECORD_BYTES, most_bytes):
            most = min(MAX_RECORD_BYTES, most_bytes)
            raise RecordTooLarge(
                f"records[{index}] has {each.size} bytes: expected at most {most}", index=index, max=most
            )
    if (size := sum(each.size for each in found)) > most_bytes:
        raise BatchTooLarge(
            f"the append has {size} bytes: expected at most {most_bytes}, the topic's largest batch (max.message.bytes)",
            max=most_bytes,
        )
    return found


def message_of(record: GivenRecord, node: str | None) -> NewMessage:
    """Returns a record as a message. Raises InvalidRequest."""
    value, headers = bytes(record.data), MessageHeaders()
    check_depth("the data of a record", value)
    key = None
    if record.tag is not None:
        check_token("tag", record.tag, MAX_TAG_BYTES)
        key = record.tag.encode()
    if record.node is not None:
        check_token("node", record.node, MAX_NODE_BYTES)
        node = record.node
    size = len(value) + len(key or b"") + OVERHEAD_BYTES
    if node is not None:
        headers.append((NODE, name := node.encode()))
        size += len(name)
    meta = bytes(record.meta)
    if meta != NULL:
        size += check_meta(meta, MAX_META_BYTES, MAX_META_KEYS)
        headers.append((META, meta))
    return NewMessage(value, key, headers, size)
