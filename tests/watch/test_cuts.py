"""A stream that is cut anywhere. Widely used clients take an id as soon as they have read its line, and continue behind it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from contract import sse
from gateway.rewrite.frames import Frame
from tests.watch.wire import Api

RECORDS = 30


class HastyClient:
    """A client that takes an id when it has read its line, and an event when it has read the empty line behind it."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.events: list[bytes] = []
        self.has_data = False

    def read(self, data: bytes) -> None:
        """Reads the bytes of one connection. What is no whole line is lost with it."""
        lines, block = data.split(b"\n")[:-1], []
        for line in lines:
            if line.startswith(b"id: "):
                self.last_id = line[4:].decode()
            if line:
                block.append(line)
                continue
            if any(each.startswith(b"data:") for each in block):
                self.events.append(b"\n".join(block))
            block = []


def seqs(data: bytes) -> set[int]:
    return {int(found) for found in re.findall(rb'"\$seq":(\d+),', data)}


@pytest.fixture(params=["events", "watch", "watch of two", "work"])
def url(request: pytest.FixtureRequest, api: Api, name: str) -> str:
    """A stream of 30 records, in frames of one or a few."""
    if request.param == "work":
        api.done("PUT", f"/v0/topics/{name}", {"type": "queue"})
    api.append(name, *range(RECORDS))
    if request.param == "events":
        return f"/v0/topics/{name}/events?from_seq=0"
    if request.param == "work":
        return f"/v0/topics/{name}/work?node=one&max=1000"
    more = {f"{name}-2": {}} if request.param == "watch of two" else {}
    for topic in more:
        api.append(topic, 1)
    return api.watch({name: {"from_seq": 0}, **more}, limit=4)


def whole(api: Api, url: str) -> bytes:
    """The bytes of the stream as far as its last record."""
    with api.stream(url) as stream:
        found = b""
        while found.count(b'"$seq":') < RECORDS or not found.endswith(b"\n\n"):
            found += stream.read()
        return found


def cuts(data: bytes) -> Iterator[int]:
    """Yields each place where a connection can end, but for those between the two line ends of an event."""
    yield from (place for place in range(1, len(data)) if data[place - 1 : place + 1] != b"\n\n")


def test_an_id_is_read_with_its_event_wherever_the_stream_is_cut(api: Api, url: str) -> None:
    data = whole(api, url)
    for place in cuts(data):
        client = HastyClient()
        client.read(data[:place])
        ids = [line[4:] for event in client.events for line in event.split(b"\n") if line.startswith(b"id: ")]
        assert client.last_id == (ids[-1].decode() if ids else None), data[max(place - 200, 0) : place]


@pytest.mark.parametrize("url", ["events", "watch", "watch of two"], indirect=True)
def test_a_hasty_client_gets_each_record_however_often_it_is_cut(api: Api, url: str) -> None:
    chance, client = random.Random(71), HastyClient()
    while len(had := seqs(b"".join(client.events))) < RECORDS:
        with api.stream(url, client.last_id) as stream:
            # Without an id, a session would continue where its server saw the client.
            most, found = chance.randrange(1, 2000) + (2000 if client.last_id is None else 0), b""
            while len(found) < most and len(had | seqs(found)) < RECORDS:
                found += stream.read(most - len(found))
            client.read(found if found.endswith(b"\n\n") else found.rstrip(b"\n"))
    assert had == set(range(1, RECORDS + 1))


def test_a_gateway_keeps_the_order_of_the_lines() -> None:
    sent = sse.event("record", b'{"a":1}', b"x")
    assert sent == b'event: record\ndata: {"a":1}\nid: x\n\n'
    assert Frame(sent).encoded() == sent == Frame(b'id: x\nevent: record\ndata: {"a":1}').encoded()
