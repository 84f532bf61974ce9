"""The bytes of a watch stream: server-sent events, and the ids that resume the stream.

An id is base64url of a JSON map from topic to seq. An id covers all records sent by the session, including its own frame.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from base.errors import InvalidRequest
from contract import sse

RETRY = b"retry: 2000\n"  # the first line of the first event, because some clients take it alone for an event
OF_BEFORE = "$topic_ids"  # in ids of earlier versions; ignored
MOST_ID_CHARACTERS = 200_000  # 256 topics with names of 255 characters need half of this


def id_line(seqs: Mapping[str, int]) -> bytes:
    """Returns the `id:` line for the seq of each topic."""
    text = msgspec.json.encode(seqs)
    text += b" " * (-len(text) % 3)  # a length without padding, because some decoders reject padding
    return sse.id_line(base64.urlsafe_b64encode(text))


def parse_id(text: str) -> dict[str, int]:
    """Returns the seq of each topic in a Last-Event-ID. Raises InvalidRequest."""
    try:
        if len(text) > MOST_ID_CHARACTERS:
            raise ValueError("too long")
        raw = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
        ids = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        ids.pop(OF_BEFORE, None)
        seqs = {topic: msgspec.json.decode(seq, type=int) for topic, seq in ids.items()}
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest("invalid Last-Event-ID: this stream gave out other ids. Connect without it") from error
    if any(seq < 0 for seq in seqs.values()):
        raise InvalidRequest("invalid Last-Event-ID: this stream gave out other ids. Connect without it")
    return seqs


def event(name: str, **data: Any) -> bytes:
    return sse.event(name, msgspec.json.encode(data))


def record(line: bytes, topic: str, records: bytes, from_seq: int, to_seq: int, head_seq: int) -> bytes:
    """Returns a `record` event with an `id:` line, which may be empty. `records` went through sse.in_lines()."""
    return (b'event: record\ndata: {"topic":"%b","records":[%b],"from_seq":%d,"to_seq":%d,"head_seq":%d}\n%b\n') % (
        topic.encode(),
        records,
        from_seq,
        to_seq,
        head_seq,
        line,
    )


def record_text(topic: str, records: bytes, from_seq: int, to_seq: int, head_seq: int) -> bytes:
    """Returns a `record` frame of a WebSocket. `records` went through sse.in_lines()."""
    return (b'{"op":"record","topic":"%b","from_seq":%d,"to_seq":%d,"head_seq":%d,"records":[%b]}') % (
        topic.encode(),
        from_seq,
        to_seq,
        head_seq,
        sse.of_lines(records),
    )


def without_data(records: str) -> str:
    """Returns the records without their `data`. The text of every other field stays the same."""
    kept = msgspec.json.decode(f"[{records}]", type=list[dict[str, msgspec.Raw]])
    for each in kept:
        del each["data"]
    return msgspec.json.encode(kept).decode()[1:-1]


def heartbeat(now: int) -> bytes:
    return b": hb %d\n\n" % now
