"""The bodies of calls, and their ids."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from contract import cloudevents
from push.webhooks.lanes import OutgoingRecord

CONTENT = {
    "record": b"application/json",
    "batch": b"application/json",
    "data": b"application/json",
    "cloudevents": b"application/cloudevents+json; charset=utf-8",
}


def message_id(topic: str, records: Sequence[OutgoingRecord]) -> str:
    """Returns the id of a call, without a dot. A record has one id in all its attempts. No topic has a ~ in its name."""
    first, last = records[0].seq, records[-1].seq
    return f"{topic.replace('.', '~')}:{first}" + (f"-{last}" if last > first else "")


def one(format: str, record: OutgoingRecord) -> bytes:
    """Returns the body of a call with one record."""
    topic = record.topic.encode()
    if format == "record":
        return b'{"topic":"%b",%b' % (topic, record.record[1:])
    if format == "data":
        return bytes(record.parts().data)
    return cloudevents.event(record.topic, msgspec.json.decode(record.record, type=dict[str, msgspec.Raw]))


def body(format: str, records: Sequence[OutgoingRecord]) -> bytes:
    """Returns the body of a call with these records of one topic."""
    if format != "batch":
        return one(format, records[0])
    joined = b",".join(record.record for record in records)
    return b'{"topic":"%b","records":[%b]}' % (records[0].topic.encode(), joined)
