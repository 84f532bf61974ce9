"""Decides which records of a queue are events: records exactly as this server publishes them (publish.py).

A `/v0` key may append any JSON to topics below `bus:`. Such a record may name another topic, or contain a field twice, and
receivers read a repeated field in two ways. PostgreSQL raises for some JSON when it extracts text, so Python does the check.
"""

from __future__ import annotations

import re

import msgspec

from base.errors import InvalidRequest
from push.bus.publish import MAX_URL, TEST_TOPIC, TEST_URL, check_url

TEXT = r'"(?:[^"\\]|\\.)*"'
HEAD = re.compile(
    rf'\{{"topic":"([a-z_]{{1,32}})","type":"(?:create|update|delete|noop)","url":({TEXT}),"t":-?[0-9]+', re.ASCII
)
DATA = ',"data":'
MARK = re.compile(rf"{TEXT}|[\[\]{{}},]", re.ASCII)


def is_event(topic: str, record: str) -> bool:
    """Returns whether a JSON record is an event of this bus topic. If `topic` is empty: a test event of an operator."""
    head = HEAD.match(record)
    if head is None or head[1] != (topic or TEST_TOPIC):
        return False
    try:
        url = msgspec.json.decode(head[2], type=str)
        check_url(url, "url", MAX_URL)
    except (msgspec.DecodeError, InvalidRequest):
        return False
    if not topic and not url.startswith(TEST_URL):
        return False
    rest = record[head.end() :]
    return rest == "}" or (rest.startswith(DATA) and is_one_value(rest[len(DATA) : -1]))


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
