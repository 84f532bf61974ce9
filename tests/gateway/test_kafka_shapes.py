"""The gateway reads the bodies for a Kafka cluster by shapes of its own: they have the fields and defaults of a server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.kafka import shapes, streams
from gateway.kafka.shapes import INERT
from topics.api.cursors import PutCursor
from topics.append.records import Append, NewRecord
from topics.config import Config, defaults
from topics.delete.records import Delete
from topics.models import Topic
from topics.read.diff import Diff
from watch.sessions import Start, Watch

PAIRS = [
    (shapes.GivenRecord, NewRecord),
    (shapes.GivenAppend, Append),
    (shapes.TopicSettings, Config),
    (shapes.WantedPage, Diff),
    (shapes.GivenDelete, Delete),
    (shapes.GivenCursor, PutCursor),
    (streams.WatchStart, Start),
    (streams.GivenWatch, Watch),
]


def fields(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """Returns the default of each field."""
    return {
        each.encode_name: each.default_factory() if each.default_factory is not msgspec.NODEFAULT else each.default
        for each in msgspec.structs.fields(shape)
    }


@pytest.mark.parametrize(("ours", "servers"), PAIRS)
def test_a_shape_has_the_fields_of_the_server(ours: type[msgspec.Struct], servers: type[msgspec.Struct]) -> None:
    assert fields(ours) == fields(servers)


def test_what_kafka_has_nothing_for_is_refused_unless_it_is_the_default_of_a_server() -> None:
    assert {name: defaults(Topic)[name] for name in INERT} == INERT
    assert {*Config.__struct_fields__} - {*INERT} == {"ttl_ms", "cap_bytes", "durability", "durable"}
