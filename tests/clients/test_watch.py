"""A watch of the Python client shows each record of several topics once, in order, and each loss."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, closing
from typing import Any

import pytest
from topics_client import AsyncTopics, RecordsLost, Topics, errors
from topics_client.events import Parser

from tests.clients.proxy import proxy
from tests.instances import Instance
from tests.watch.wire import Api, new_name

COUNT = 1500


@pytest.fixture
def names(server: Instance) -> list[str]:
    """Two topics of so many records. The first one has lost its first five."""
    names = [new_name(), new_name()]
    for name in names:
        Api(server.port).append(name, *range(1, COUNT + 1))
    assert Api(server.port).call("POST", f"/v0/topics/{names[0]}/delete", {"seqs": [7]}).status == 200
    assert Api(server.port).call("PUT", f"/v0/topics/{names[0]}", {"cap_records": COUNT - 6}).status == 200
    return names


def whole(names: list[str]) -> dict[str, list[Any]]:
    return {names[0]: [("lost", 1, 5), 6, *range(8, COUNT + 1)], names[1]: list(range(1, COUNT + 1))}


def test_a_watch_sees_each_record_once_although_connections_are_cut(server: Instance, names: list[str]) -> None:
    seen: dict[str, list[Any]] = {name: [] for name in names}

    def lost(tombstone: Any) -> None:
        seen[tombstone.topic].append(("lost", tombstone.gap_from, tombstone.gap_to))

    with proxy(server.port, (3000, 8000)) as cutting, Topics(cutting.url) as topics:
        with closing(topics.watch(*names, limit=10, on_loss=lost)) as records:
            for record in records:
                assert record.seq == record.data
                seen[record.topic].append(record.seq)
                if all(each and each[-1] == COUNT for each in seen.values()):
                    break
        assert cutting.cuts > 20
        assert len(cutting.requests) <= 2 * cutting.cuts + 5
    assert seen == whole(names)


def test_an_async_watch_sees_each_record_once_although_connections_are_cut(server: Instance, names: list[str]) -> None:
    seen: dict[str, list[Any]] = {name: [] for name in names}

    async def lost(tombstone: Any) -> None:
        seen[tombstone.topic].append(("lost", tombstone.gap_from, tombstone.gap_to))

    async def main(url: str) -> None:
        async with AsyncTopics(url) as topics, aclosing(topics.watch(*names, limit=10, on_loss=lost)) as records:
            async for record in records:
                seen[record.topic].append(record.seq)
                if all(each and each[-1] == COUNT for each in seen.values()):
                    return

    with proxy(server.port, (3000, 8000)) as cutting:
        asyncio.run(main(cutting.url))
        assert cutting.cuts > 20
    assert seen == whole(names)


def test_a_watch_starts_where_it_is_told(server: Instance) -> None:
    one, two = new_name(), new_name()
    for name in (one, two):
        for n, tag in ((1, "a"), (2, "b"), (3, "a")):
            Api(server.port).call("POST", f"/v0/topics/{name}", {"records": [{"data": n, "tag": tag}]})
    with Topics(server.url) as topics:
        with closing(topics.watch(one, two, start={one: 2, two: "head"})) as records:
            first = next(records)
            assert (first.topic, first.seq, first.tag) == (one, 3, "a")
            Api(server.port).append(two, "new")
            assert next(records).data == "new"
        with closing(topics.watch(one, match="b")) as records:
            assert next(records).seq == 2
        with pytest.raises(errors.TopicNotFound):
            next(topics.watch(new_name()))
        with pytest.raises(ValueError, match="topics"):
            next(topics.watch())


def test_losses_raise_unless_the_application_has_decided(server: Instance, names: list[str]) -> None:
    with Topics(server.url) as topics:
        with pytest.raises(RecordsLost) as raised:
            next(topics.watch(names[0]))
        assert raised.value.tombstone.topic == names[0]
        with closing(topics.watch(names[0], on_loss="ignore")) as records:
            assert next(records).seq == 6


def test_events_may_be_cut_anywhere() -> None:
    text = b': hb 1\n\nid: abc\nevent: record\ndata: {"a":\ndata: 1}\n\nevent: x\ndata: 2\n\n'
    for size in (1, 7, len(text)):
        parser = Parser()
        for at in range(0, len(text), size):
            parser.feed(text[at : at + size])
        assert [(each.name, each.data, each.id) for each in parser.events] == [
            ("record", b'{"a":\n1}', "abc"), ("x", b"2", ""),
        ]  # fmt: skip
