"""Decides which records are events of a bus topic. An event is a JSON object with the fields that the bus writes (publish.py).

`/v0` refuses other records (check_records). But a queue can have records of an earlier release or of another server. A field must
stand once, because receivers read a repeated field in two ways. PostgreSQL raises for some JSON when it extracts text, so Python
does the check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from base.errors import InvalidRequest
from push.bus.names import BUS, TOPIC
from push.bus.publish import MAX_URL, TEST_TOPIC, TEST_URL, Kind, check_url

TEXT = r'"(?:[^"\\]|\\.)*"'
KINDS = get_args(Kind)
# The form in which the bus writes. It needs no parsing of the data.
HEAD = re.compile(
    rf'\{{"topic":"({TOPIC.pattern})","type":"(?:{"|".join(KINDS)})","url":({TEXT}),"t":-?[0-9]+', re.ASCII
)
FIELDS, OPTIONAL = {"topic", "type", "url", "t"}, {"data"}
DATA = ',"data":'
MARK = re.compile(rf"{TEXT}|[\[\]{{}},]", re.ASCII)


def check_records(name: str, records: Sequence[msgspec.Raw]) -> None:
    """Raises InvalidRequest if the topic is of the bus, and a record is not an event of it."""
    if not name.startswith(BUS):
        return
    topic = name.removeprefix(BUS)
    for place, data in enumerate(records):
        if not is_event(topic, bytes(data).decode(errors="replace")):
            raise InvalidRequest(
                f'records[{place}] is no event of {name!r}: expected {{"topic": "{topic}", "type": …, "url": …, "t": …}}',
                field="records",
                index=place,
            )


def check_dest(name: str) -> None:
    """Raises InvalidRequest if records of any kind would be written to a topic of the bus, which has events alone."""
    if name.startswith(BUS):
        raise InvalidRequest(
            f"{name!r} is a topic of the push bus, which takes events alone: publish them with POST /topics/:topic, or name "
            "another topic"
        )


def is_event(topic: str, record: str) -> bool:
    """Returns whether a JSON record is an event of this bus topic. If `topic` is empty: a test event of an operator."""
    head = HEAD.match(record)
    if head is None or not is_rest(record[head.end() :]):
        return is_equal_to_event(topic, record)
    try:
        return is_of(topic, head[1], msgspec.json.decode(head[2], type=str))
    except msgspec.DecodeError:  # half of a surrogate pair
        return False


def is_rest(text: str) -> bool:
    """Returns whether an event in the bus's own form ends so, behind its time."""
    return text == "}" or (text.startswith(DATA) and is_one_value(text[len(DATA) : -1]))


def is_equal_to_event(topic: str, record: str) -> bool:
    """Returns whether the record is an event that another writer wrote, with its keys in another order, for example."""
    try:
        fields = json.loads(record, object_pairs_hook=Fields)
    except (ValueError, RecursionError):
        return False
    if not isinstance(fields, Fields):
        return False
    values = dict(fields)
    if len(values) != len(fields) or not FIELDS <= values.keys() <= FIELDS | OPTIONAL:
        return False
    is_typed = values["type"] in KINDS and type(values["t"]) is int and isinstance(values["url"], str)
    return is_typed and is_of(topic, values["topic"], values["url"])


class Fields(list[tuple[str, Any]]):
    """The fields of a JSON object, as often as they are there."""


def is_of(topic: str, named: object, url: str) -> bool:
    """Returns whether an event that names this topic and URL may be sent to the subscribers of `topic`."""
    if named != (topic or TEST_TOPIC) or (not topic and not url.startswith(TEST_URL)):
        return False
    try:
        url.encode()  # no half of a surrogate pair
        check_url(url, "url", MAX_URL)
    except (InvalidRequest, UnicodeEncodeError):
        return False
    return True


def is_one_value(text: str) -> bool:
    """Returns whether `text` is exactly one JSON value, with no further field of the object after the value."""
    if "," not in text:
        return True
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    except RecursionError:  # publishers may nest this deep, but the stack is deeper here than in their check
        return not has_comma_outside(text)
    return True


def has_comma_outside(text: str) -> bool:
    """Returns whether the text contains a comma outside of all arrays, objects and strings."""
    depth = 0
    for mark in MARK.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark[0], 0)
        if depth == 0 and mark[0] == ",":
            return True
    return False
