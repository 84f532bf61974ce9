"""A spliced topic against a small model of it: every window, every limit, and a watch from every position."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.gateway.running import Client, Running
from tests.gateway.splicing import splice
from tests.gateway.streams import Stream

TAGS = ("a", "b", "c")
# The segments of a topic as (from, shown records of it); the last one's records are appended through the gateway.
SHAPES = (
    ((0, 1), (0, 0)),
    ((0, 4), (0, 0)),
    ((0, 4), (3, 0)),
    ((0, 3), (0, 2), (0, 0)),
    ((0, 2), (2, 4), (1, 0)),
    ((2, 3), (0, 1), (4, 0)),
)
MOST_EXAMPLES = examples(4)


@dataclass
class Part:
    """What a model knows of one segment, in positions: `evicted` is the last one that its cap evicted."""

    begin: int
    end: int | None
    head: int
    evicted: int
    live: dict[int, str] = field(default_factory=dict)  # the tag by position

    def gap(self, position: int) -> tuple[int, int] | None:
        """What a reader behind a position is told to be lost. A gap ends where the first record is, as servers tell it."""
        position = max(position, self.begin)
        return (position + 1, min(self.live, default=self.head + 1) - 1) if self.evicted > position else None


@dataclass
class Model:
    parts: list[Part]
    head: int

    def behind(self, position: int) -> list[Part]:
        return [part for part in self.parts if part.end is None or position < part.end]

    def window(
        self, from_seq: int, limit: int, tag: str | None = None
    ) -> tuple[list[int], int, tuple[int, int] | None]:
        """The positions of the records, where to read on, and what was lost before them. With a tag, `limit` counts matches."""
        position, found, lost = from_seq, list[int](), None
        for part in self.behind(from_seq):
            if (gap := part.gap(position)) is not None:
                if position != from_seq:
                    break  # a tombstone begins an answer
                position, lost = gap[1], gap
            live = [each for each in sorted(part.live) if each > position and tag in (None, part.live[each])][:limit]
            found += live
            limit -= len(live)
            position = live[-1] if not limit else self.head if part.end is None else part.end
            if position != part.end or not limit:
                break
        return found, position, lost

    def events(self, from_seq: int) -> list[Any]:
        """The output of a stream: positions of records, and lost ranges."""
        told: list[Any] = []
        for part in self.behind(from_seq):
            told += [gap] if (gap := part.gap(from_seq)) is not None else []
            told += [each for each in sorted(part.live) if each > from_seq]
        return told

    @property
    def earliest(self) -> int:
        """The first position with a record."""
        return min((each for part in self.parts for each in part.live), default=self.head + 1)


@pytest.fixture(scope="module")
def place(two_servers, tmp_path_factory) -> Iterator[Running]:
    """A gateway with `MOST_EXAMPLES` topics of each shape. The segments are on the two servers by turns."""
    topics = {}
    for number, shape in enumerate(SHAPES):
        for each in range(MOST_EXAMPLES):
            name = f"model-{number}-{each}"
            topics[name] = [
                {"route": ("old", "new")[place % 2], "topic": f"{name}-{place}", "from": start}
                | ({"upto": start + shown} if place < len(shape) - 1 else {})
                for place, (start, shown) in enumerate(shape)
            ]
    configuration = splice(two_servers[0].port, two_servers[1].port, topics)
    running = Running(tmp_path_factory.mktemp("model"), configuration).start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def fresh(place: Running, two_servers) -> Iterator[Callable[..., tuple[str, Model, Client]]]:
    """Fills a topic of a shape that no example had. Returns its name, its model and a client."""
    servers = [Client(server.port) for server in two_servers]
    client = Client(place.port)
    counter = itertools.count()

    def fill(shape: int, caps: list[int], appends: list[list[str]]) -> tuple[str, Model, Client]:
        name = f"model-{shape}-{next(counter)}"
        segments = SHAPES[shape]
        model, end = Model([], 0), 0
        tags = itertools.cycle(TAGS)
        for number, (start, shown) in enumerate(segments):
            is_last = number == len(segments) - 1
            server, topic = servers[number % 2], f"{name}-{number}"
            server.call("PUT", f"/v0/topics/{topic}", {"cap_records": caps[number]})
            offset = end - start if number else 0
            written = [next(tags) for _ in range(start + shown)]
            if written:
                server.post(f"/v0/topics/{topic}", {"records": [{"data": tag, "tag": tag} for tag in written]})
            for records in appends if is_last else ():
                expected = end + len(written) - start + 1
                made = client.post(f"/v0/topics/{name}", {"records": [{"data": tag, "tag": tag} for tag in records]})
                assert made.json["seqs"] == list(range(expected, expected + len(records)))
                written += records
            floor = max(len(written) - caps[number], 0) if caps[number] else 0
            live = {seq + offset: tag for seq, tag in enumerate(written, 1) if seq > max(floor, start)}
            begin, end = start + offset, len(written) + offset
            model.parts.append(Part(begin, None if is_last else end, end, floor + offset, live))
        model.head = end
        return name, model, client

    yield fill
    for each in (*servers, client):
        each.close()


@pytest.mark.guarantee("G3")
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # it would stand in the place of a failure
@settings(
    max_examples=MOST_EXAMPLES,
    phases=[Phase.explicit, Phase.generate],  # each example takes a topic that was prepared
)
@given(
    shape=st.integers(0, len(SHAPES) - 1),
    caps=st.lists(st.sampled_from((0, 0, 1, 2)), min_size=3, max_size=3),
    appends=st.lists(st.lists(st.sampled_from(TAGS), min_size=1, max_size=3), max_size=3),
    deleted=st.one_of(st.none(), st.sampled_from(TAGS)),
)
def test_a_spliced_topic_is_as_its_model(place, fresh, shape: int, caps: list[int], appends: Any, deleted: Any) -> None:
    name, model, client = fresh(shape, caps, appends)
    if deleted is not None:
        done = client.post(f"/v0/topics/{name}/delete", {"match": deleted})
        gone = [(part, each) for part in model.parts for each, tag in part.live.items() if tag == deleted]
        for part, each in gone:
            del part.live[each]
        assert done.status == 200
    count = sum(len(part.live) for part in model.parts)
    topic = client.get(f"/v0/topics/{name}").json
    assert topic["head_seq"] == model.head
    assert deleted is not None or topic["count"] == count
    assert topic["earliest_seq"] <= model.earliest
    assert deleted is not None or topic["earliest_seq"] == model.earliest
    begin = model.parts[0].begin
    for from_seq in range(begin, model.head + 1):
        for limit in (1, 2, 4, 1000):
            found, position, lost = model.window(from_seq, limit)
            read = client.post(f"/v0/topics/{name}/diff", {"from_seq": from_seq, "limit": limit, "wait_ms": 1}).json
            where = (name, from_seq, limit)
            assert [each["$seq"] for each in read["records"]] == found, where
            assert (read["next_from_seq"], read["head_seq"]) == (position, model.head), where
            assert read["caught_up"] == (position == model.head), where
            told = read["tombstone"]
            assert (told and (told["gap_from"], told["gap_to"])) == lost, where
        matched = client.post(f"/v0/topics/{name}/diff", {"from_seq": from_seq, "match": "a", "limit": 3}).json
        found, position, _ = model.window(from_seq, 3)
        tags = {each: tag for part in model.parts for each, tag in part.live.items()}
        assert [each["$seq"] for each in matched["records"]] == [each for each in found if tags[each] == "a"]
        assert matched["next_from_seq"] == position
        for limit in (1, 3):
            wanted = {"from_seq": from_seq, "match": "a", "limit": limit, "window": "matches"}
            read = client.post(f"/v0/topics/{name}/diff", wanted).json
            query = f"from_seq={from_seq}&match=a&limit={limit}"
            assert client.get(f"/v0/topics/{name}/records?{query}").json["records"] == read["records"]
            found, position, _ = model.window(from_seq, limit, "a")
            assert ([each["$seq"] for each in read["records"]], read["next_from_seq"]) == (found, position)
        assert watched(place, client, name, from_seq) == model.events(from_seq)


def watched(place: Running, client: Client, name: str, from_seq: int) -> list[Any]:
    """Returns the output of a watch from a position to the end."""
    url = client.post("/v0/watch", {"topics": {name: {"from_seq": from_seq}}, "limit": 2}).json["stream_url"]
    stream = Stream(place, url)
    told: list[Any] = []
    head = client.get(f"/v0/topics/{name}").json["head_seq"]
    position = from_seq
    while position < head:
        event = stream.event("record", "tombstone", "caught-up")
        if "gap_from" in event:
            told.append((event["gap_from"], event["gap_to"]))
            position = event["gap_to"]
        elif "records" in event:
            told += [each["$seq"] for each in event["records"]]
            position = event["to_seq"]
        else:
            position = event["head_seq"]  # caught-up
    stream.close()
    return told
