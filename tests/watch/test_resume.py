"""Resume, checked against the log: wherever a connection is cut, what a client has in the end is each record, once.

The client keeps what an EventSource keeps: whole events only, and the id of the last of them.
"""

import base64
import json
import random

import pytest

from tests.instances import Instance, until
from tests.watch.wire import Api, Event, Refused, Stream, new_name, seqs, still_open

pytestmark = pytest.mark.deep


RECORDS = 12


def transcript(api: Api, name: str, **options: object) -> bytes:
    """All that a stream sends up to and with caught-up."""
    data = b""
    with api.stream(api.watch({name: {}}, **options)) as stream:
        while b"event: caught-up" not in data or not data.endswith(b"\n\n"):
            data += stream.read()
    return data


def boundaries(data: bytes) -> list[int]:
    """Where frames end, and some places within each."""
    ends = [place + 2 for place in range(len(data)) if data[place : place + 2] == b"\n\n"]
    cuts = {0, *ends}
    for begin, end in zip([0, *ends], ends, strict=False):
        cuts |= {begin + 1, begin + 4, (begin + end) // 2, end - 2, end - 1}
    return sorted(cut for cut in cuts if cut <= len(data))


def cut(stream: Stream, size: int, end: dict[str, int] | None = None) -> list[Event]:
    """Break the connection after exactly so many bytes, or where nothing follows the place `end`."""
    events: list[Event] = []
    with stream:
        while size and not (events and events[-1].place == end) and (data := stream.read(size)):
            size -= len(data)
            events += stream.take(data)
    return events


def follow(api: Api, url: str, last_id: str | None, topics: dict[str, int]) -> list[Event]:
    """Go on until the ids say that every topic is there."""
    with api.stream(url, last_id) as stream:
        return stream.until(lambda event: event.place == topics)


@pytest.mark.guarantee("R3")
def test_cut_at_every_frame_boundary_and_within_frames(api: Api, name: str) -> None:
    api.append(name, *range(RECORDS))
    sizes = boundaries(transcript(api, name, limit=2))
    assert len(sizes) > 30
    for size in sizes:
        url = api.watch({name: {}}, limit=2)
        stream = api.stream(url)
        before = cut(stream, size)
        after = follow(api, url, stream.last_id, {name: RECORDS})
        assert seqs(before + after) == list(range(1, RECORDS + 1)), f"cut after {size} bytes"


def test_cut_again_and_again_while_it_grows(api: Api) -> None:
    chance = random.Random(5)
    for _ in range(8):
        topics = {new_name(): 0 for _ in range(chance.choice([1, 2, 5]))}
        for topic in topics:
            topics[topic] = api.append(topic, "first")
        url, last_id, got = api.watch({topic: {} for topic in topics}, limit=chance.choice([1, 3, 100])), None, []
        for _ in range(12):
            for topic in topics:
                if chance.random() < 0.5:
                    topics[topic] = api.append(topic, *range(chance.randrange(1, 6)))
            stream = api.stream(url, last_id)
            got += cut(stream, chance.randrange(700), topics)
            last_id = stream.last_id or last_id
        got += follow(api, url, last_id, topics)
        for topic, head in topics.items():
            assert seqs(got, topic) == list(range(1, head + 1))


def test_the_client_names_its_place_exactly(api: Api, name: str) -> None:
    api.append(name, *range(10))
    url = api.watch({name: {}}, limit=1)
    with api.stream(url) as stream:
        events = stream.until_seq(name, 10)
    for event in events[:-1]:
        after = follow(api, url, event.id, {name: 10})
        assert seqs(after) == list(range(event.place[name] + 1, 11))


def test_without_an_id_it_goes_on_where_the_session_is(api: Api, name: str) -> None:
    api.append(name, 1, 2, 3)
    url = api.watch({name: {}}, heartbeat_ms=1000)
    with api.stream(url) as stream:
        stream.until_event("caught-up")
        while not stream.comments:  # alive long after: it has arrived
            stream.take(stream.read())
    api.append(name, 4)
    assert seqs(follow(api, url, None, {name: 4})) == [4]


@pytest.mark.guarantee("R3")
def test_without_an_id_what_was_just_sent_is_sent_again(api: Api, name: str) -> None:
    api.append(name, 1, 2, 3)
    url = api.watch({name: {}})
    cut(api.stream(url), 0)
    assert seqs(follow(api, url, None, {name: 3})) == [1, 2, 3]


def test_an_id_from_the_future_does_not_skip(server: Instance, api: Api, name: str) -> None:
    api.append(name, *range(5))
    url = api.watch({name: {}})
    with api.stream(url) as stream:
        last = stream.until_event("caught-up")[-1]
    assert last.place == {name: 5}
    with server.connect() as database:
        for head, future in ((6, 6), (7, 8), (8, 10_000), (9, 2**70)):
            api.append(name, "next")
            # A session whose stream has not ended may have sent more than it says: as after a crash, its client is believed.
            until(lambda: not still_open(database, url), "the stream's end to be written down")
            assert seqs(follow(api, url, forge({name: future}), {name: head})) == [head]


def forge(place: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def test_an_id_of_another_session_only_rewinds(api: Api, name: str) -> None:
    other = new_name()
    api.append(name, 1, 2, 3)
    api.append(other, 1)
    url = api.watch({name: {}})
    with api.stream(url) as stream:
        stream.until_event("caught-up")
    assert set(seqs(follow(api, url, forge({other: 1}), {name: 3}))) <= {1, 2, 3}
    assert seqs(follow(api, url, forge({name: 1, other: 1}), {name: 3})) == [2, 3]


@pytest.mark.parametrize(
    "last_id",
    ["x", "%%%", "e30", "bnVsbA==", "W10=", "eyJhIjotMX0=", "eyJhIjoieCJ9", "eyJhIjoxLjV9", "A" * 300_000, "ÿ"],
)
def test_garbage_is_refused(api: Api, name: str, last_id: str) -> None:
    api.append(name, 1)
    url = api.watch({name: {}})
    if last_id == "e30":  # {}: an id of a session whose topics are all gone
        assert seqs(follow(api, url, last_id, {name: 1})) == [1]
        return
    with pytest.raises((Refused, ConnectionError)) as refused:
        api.stream(url, last_id)
    if isinstance(refused.value, Refused):
        assert refused.value.status in (400, 431)


def test_500_clients_come_back_at_once(api: Api, name: str) -> None:
    api.append(name, *range(20))
    urls = [api.watch({name: {}}) for _ in range(500)]
    streams = [api.stream(url) for url in urls]
    for stream in streams:
        stream.until_seq(name, 20)
    for stream in streams:
        stream.close()
    api.append(name, *range(20))
    streams = [api.stream(url, stream.last_id) for url, stream in zip(urls, streams, strict=True)]
    for stream in streams:
        assert seqs(stream.until_seq(name, 40)) == list(range(21, 41))
        stream.close()


def test_a_last_id_in_the_query_resumes_too(api: Api, name: str) -> None:
    """Polyfills of EventSource add it to the URL at a reconnect, and others add a parameter against caches."""
    api.append(name, *range(3))
    url = api.watch({name: {}}, limit=1)
    with api.stream(url) as stream:
        first = stream.until(lambda event: event.place == {name: 1})[-1]
    with api.stream(f"{url}?lastEventId={first.id}&_=1795502147175") as stream:
        assert seqs(stream.until(lambda event: event.place == {name: 3})) == [2, 3]
        last = stream.last_id
    with api.stream(f"{url}?lastEventId={first.id}", last) as stream:
        api.append(name, 3)
        assert seqs(stream.until(lambda event: event.place == {name: 4})) == [4]
    with pytest.raises(Refused) as refused:
        api.stream(f"{url}?lastEventId=orders:7")
    assert refused.value.status == 400
