"""What counts as an event where a batch is made: a record exactly as this server publishes it (publish.py).

A key of `/v0` may write any JSON below `bus:`. Such a record may claim another topic, or name a field twice, which receivers read
in two ways. PostgreSQL raises for some JSON when it takes text out of it, so the look is taken here.
"""

from __future__ import annotations

import re

import msgspec

from base.errors import InvalidRequest
from push.publish import MAX_URL, TEST_TOPIC, TEST_URL, check_url

TEXT = r'"(?:[^"\\]|\\.)*"'
HEAD = re.compile(
    rf'\{{"topic":"([a-z_]{{1,32}})","type":"(?:create|update|delete|noop)","url":({TEXT}),"t":-?[0-9]+', re.ASCII
)
DATA = ',"data":'
MARK = re.compile(rf"{TEXT}|[\[\]{{}},]", re.ASCII)


def is_event(topic: str, record: str) -> bool:
    """Whether a record, which is JSON, is an event of this bus topic. Without a topic: a test event that an operator sent."""
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
    """Whether the last value of a JSON object is all of this text, and no field follows it."""
    if "," not in text:
        return True
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    except RecursionError:  # as deep as a publisher may go, from a stack that is deeper than the publisher's
        return not has_comma_outside(text)
    return True


def has_comma_outside(text: str) -> bool:
    """Whether a comma stands in no array, object or string of the text."""
    depth = 0
    for mark in MARK.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark[0], 0)
        if depth == 0 and mark[0] == ",":
            return True
    return False
