"""What goes over a watch stream: server-sent events, and the ids that resume it.

An id is base64url of a JSON map from topic to seq: all that the session has sent, up to and with its frame.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from base.errors import InvalidRequest

RETRY = b"retry: 2000\n\n"
OF_BEFORE = "$topic_ids"  # in ids of earlier versions, and passed over
MOST_ID_CHARACTERS = 200_000  # 256 topics with names of 255 need half of it


def id_line(seqs: Mapping[str, int]) -> bytes:
    """The `id:` line for the seq of each topic."""
    text = msgspec.json.encode(seqs)
    text += b" " * (-len(text) % 3)  # no padding for a decoder to stumble over
    return b"id: " + base64.urlsafe_b64encode(text) + b"\n"


def parse_id(text: str) -> dict[str, int]:
    """The seq of each topic that a Last-Event-ID names. Raises InvalidRequest."""
    try:
        if len(text) > MOST_ID_CHARACTERS:
            raise ValueError("too long")
        raw = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
        ids = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        ids.pop(OF_BEFORE, None)
        seqs = {topic: msgspec.json.decode(seq, type=int) for topic, seq in ids.items()}
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest("Last-Event-ID is no id of this stream") from error
    if any(seq < 0 for seq in seqs.values()):
        raise InvalidRequest("Last-Event-ID is no id of this stream")
    return seqs


def event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


def record(topic: str, records: str, from_seq: int, to_seq: int, head_seq: int) -> bytes:
    """A `record` event; `records` is JSON as PostgreSQL wrote it."""
    if "\n" in records or "\r" in records:
        # JSON may have line breaks between its tokens. A line of the event each: the reader joins them with a break.
        records = records.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\ndata: ")
    return (
        f'event: record\ndata: {{"topic":"{topic}","records":[{records}],'
        f'"from_seq":{from_seq},"to_seq":{to_seq},"head_seq":{head_seq}}}\n\n'
    ).encode()


def without_data(records: str) -> str:
    """The records without their `data`; every other field stays the text that it was."""
    kept = msgspec.json.decode(f"[{records}]", type=list[dict[str, msgspec.Raw]])
    for each in kept:
        del each["data"]
    return msgspec.json.encode(kept).decode()[1:-1]


def heartbeat(now: int) -> bytes:
    return b": hb %d\n\n" % now
