"""Records as CloudEvents: the formats of an append and of reads (contract/cloudevents.py, docs/guides/cloudevents.md)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from contract import cloudevents
from contract.cloudevents import EVENT, EVENTS
from wire.answer import Answer
from wire.endpoint import Translation
from wire.schema import Format


class CloudEvent(msgspec.Struct, kw_only=True):
    """An event of CloudEvents 1.0 in JSON, with any further attributes."""

    specversion: str
    """`1.0`."""
    id: str
    """The event's id. The server appends an event of the same `source` and `id` once."""
    source: str
    """The producer, as a URI reference. An event about a plain record has the path of its topic."""
    type: str
    """The kind of event. An event about a plain record has `topics.record`."""
    subject: str | UnsetType = UNSET
    """The subject of the event. The record has it as its tag."""
    time: str | UnsetType = UNSET
    """Time of the event, in the format of RFC 3339."""
    datacontenttype: str | UnsetType = UNSET
    """Media type of `data`. Absent: JSON."""
    dataschema: str | UnsetType = UNSET
    """The schema of `data`, as a URI."""
    data: Any = UNSET
    """The event's data, as JSON or text."""
    data_base64: str | UnsetType = UNSET
    """The event's data in Base64, if it is neither JSON nor text."""


BATCH = Format(EVENTS, CloudEvent, is_array=True)
ONE = Format(EVENT, CloudEvent)
SENT = Translation((ONE, BATCH), cloudevents.is_sent, cloudevents.as_append)
DESCRIBED = {
    "Topics-Answer": "The members of the answer in JSON beside its records. Only of an answer as CloudEvents.",
}


def in_media(accept: str, topic: str, answer: Answer) -> Answer:
    """Returns the answer to a read in the client's media type. `answer`: in JSON."""
    if accept not in (EVENT, EVENTS):
        return answer
    body, headers = cloudevents.as_events(topic, answer.body)
    return Answer(answer.status, body, (*answer.headers, *headers))
