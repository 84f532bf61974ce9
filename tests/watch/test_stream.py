"""GET /v0/watch/:wid: the frames, their order, and what is left out of them."""

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.instances import Instance, until
from tests.watch.wire import Api, Refused, Stream, names, new_name, seqs


def test_it_works(api: Api, name: str) -> None:
    api.append(name, {"data": {"n": 1}, "node": "a", "tag": "t", "meta": {"k": 1}}, 2)
    with api.stream(api.watch({name: {}})) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers["x-accel-buffering"] == "no"
        backlog, caught_up = stream.until_event("caught-up")
        assert backlog.name == "record"
        first, second = backlog.data.pop("records")
        assert backlog.data == {"topic": name, "from_seq": 0, "to_seq": 2, "head_seq": 2}
        assert first.pop("$ts") > 0
        assert first == {"$seq": 1, "$node": "a", "meta": {"k": 1}, "data": {"n": 1}}
        assert second["data"] == 2
        assert backlog.place == {name: 2}
        assert caught_up.data == {"topic": name, "head_seq": 2}
        api.append(name, "live")
        (live,) = stream.until_seq(name, 3)
        assert (live.data["from_seq"], live.seqs, live.place) == (2, [3], {name: 3})


def test_retry_comes_first(api: Api, name: str) -> None:
    api.append(name, 1)
    with api.stream(api.watch({name: {}})) as stream:
        start = b""
        while b"\n\n" not in start:
            start += stream.read()
        first, event, *_, last = start.partition(b"\n\n")[0].split(b"\n")
        assert (first, event) == (b"retry: 2000", b"event: record")
        assert last.startswith(b"id: ")


def test_caught_up_comes_once(api: Api, name: str) -> None:
    api.append(name, 1)
    with api.stream(api.watch({name: {"tail": True}})) as stream:
        assert names(stream.until_event("caught-up")) == ["caught-up"]
        for seq in range(2, 12):
            api.append(name, seq)
            assert names(stream.until_seq(name, seq)) == ["record"]


def test_a_backlog_comes_in_bounded_frames(api: Api, name: str) -> None:
    api.append(name, *range(100))
    with api.stream(api.watch({name: {}}, limit=7)) as stream:
        events = stream.until_event("caught-up")
    assert seqs(events) == list(range(1, 101))
    assert all(len(event.seqs) <= 7 for event in events[:-1])
    assert [event.data["from_seq"] for event in events[1:-1]] == [event.data["to_seq"] for event in events[:-2]]


def test_a_frame_stays_under_its_byte_budget_but_moves_on(api: Api, name: str) -> None:
    api.append(name, *["x" * 1000] * 20)
    with api.stream(api.watch({name: {}}, max_batch_bytes=3000)) as stream:
        events = stream.until_event("caught-up")
    assert seqs(events) == list(range(1, 21))
    assert max(len(event.seqs) for event in events[:-1]) <= 3
    with api.stream(api.watch({name: {}}, max_batch_bytes=1)) as stream:
        events = stream.until_event("caught-up")
    assert [event.seqs for event in events[:-1]] == [[seq] for seq in range(1, 21)]


def test_a_library_that_takes_lines_of_64_kib_gets_no_longer_one(api: Api, name: str) -> None:
    """The claim of docs/watch.md, with the longest node that it names."""
    for size in (1, 134, 1000, 36_000):
        api.append(name, *[{"node": "n" * 30, "meta": {"k": 1}, "data": "x" * size}] * 300)

    def longest(**options: int) -> int:
        with api.stream(api.watch({name: {}}, **options)) as stream:
            events = stream.until_event("caught-up")
        assert seqs(events) == list(range(1, 1201))
        return max(len(json.dumps(event.data, separators=(",", ":"))) for event in events)

    limit = 64 * 1024 - len("data: \n")
    assert longest() < limit < longest(max_batch_bytes=256 * 1024)


def test_many_topics_in_one_stream(api: Api) -> None:
    topics = [new_name() for _ in range(5)]
    for topic in topics:
        api.append(topic, "old")
    with api.stream(api.watch({topic: {} for topic in topics})) as stream:
        done: set[str] = set()
        stream.until(lambda e: e.name == "caught-up" and (done.add(e.data["topic"]) or len(done) == 5))
        for round in range(2, 5):
            for topic in topics:
                api.append(topic, round)
        place = dict.fromkeys(topics, 4)
        events = stream.until(lambda event: event.place == place)
    for topic in topics:
        assert seqs(events, topic) == [2, 3, 4]


def test_a_busy_topic_does_not_keep_a_quiet_one_waiting(api: Api) -> None:
    busy, quiet = new_name("busy"), new_name("quiet")
    api.append(busy, *["x" * 500] * 10_000)
    api.append(quiet, 1)
    with api.stream(api.watch({busy: {}, quiet: {}}, limit=10)) as stream:
        events = stream.until_seq(quiet, 1)
    assert len(events) < 10


def test_own_nodes_are_left_out_silently(api: Api, name: str) -> None:
    mine, other = {"data": 1, "node": "me"}, {"data": 2, "node": "you"}
    api.append(name, mine, other, mine)
    with api.stream(api.watch({name: {}}, node=["me", "me too"])) as stream:
        events = stream.until_event("caught-up")
        assert seqs(events) == [2]
        assert events[0].data["to_seq"] == 3  # moved past what was left out
        api.append(name, mine, mine)
        api.append(name, other, 5)
        assert seqs(stream.until_seq(name, 7)) == [6, 7]


def test_a_node_filter_holds_for_every_topic(api: Api) -> None:
    topics = [new_name() for _ in range(3)]
    for topic in topics:
        api.append(topic, {"data": 1, "node": "me"}, {"data": 2})
    with api.stream(api.watch({topic: {} for topic in topics}, node="me")) as stream:
        events = stream.until(lambda event: event.place == dict.fromkeys(topics, 2))
    assert [event.seqs for event in events if event.name == "record"] == [[2]] * 3


def test_dedupe_node_off_ignores_the_filter(api: Api, name: str) -> None:
    api.done("PUT", f"/v0/topics/{name}", {"dedupe_node": False})
    api.append(name, {"data": 1, "node": "me"})
    with api.stream(api.watch({name: {}}, node="me")) as stream:
        assert seqs(stream.until_seq(name, 1)) == [1]


def test_a_backlog_of_own_records_only_is_caught_up_with(api: Api, name: str) -> None:
    api.append(name, *[{"data": place, "node": "me"} for place in range(50)])
    with api.stream(api.watch({name: {}}, node="me", limit=10)) as stream:
        (caught_up,) = stream.until_event("caught-up")
    assert caught_up.place == {name: 50}


def test_an_idle_stream_of_own_records_moves_its_id(api: Api, name: str) -> None:
    api.append(name, 1)
    with api.stream(api.watch({name: {"tail": True}}, node="me", heartbeat_ms=1000)) as stream:
        caught_up = stream.until_event("caught-up")[-1]
        api.append(name, {"data": 1, "node": "me"})
        deadline = time.monotonic() + 20
        while stream.last_id == caught_up.id and time.monotonic() < deadline:
            assert stream.take(stream.read()) == []
    assert stream.last_id != caught_up.id


def test_match_by_topic(api: Api) -> None:
    eq, glob = new_name(), new_name()
    for topic in (eq, glob):
        api.append(topic, *[{"data": tag, "tag": tag} for tag in ("a", "ab", "b")], "untagged")
    topics = {eq: {"match": "a"}, glob: {"match": ["tag", "Glob", "a*"]}}
    with api.stream(api.watch(topics)) as stream:
        events = stream.until(lambda event: event.place == {eq: 4, glob: 4})
    assert (seqs(events, eq), seqs(events, glob)) == ([1], [1, 2])


def test_what_a_record_shows(api: Api, name: str) -> None:
    api.append(name, {"data": {"a": 1.0}, "node": "n", "tag": "t", "meta": {"m": [1]}})

    def shown(**options: object) -> dict:
        with api.stream(api.watch({name: {}}, **options)) as stream:
            (record,) = stream.until_seq(name, 1)[-1].data["records"]
        assert record.pop("$ts")
        return record

    assert shown() == {"$seq": 1, "$node": "n", "meta": {"m": [1]}, "data": {"a": 1.0}}
    assert shown(include_tags=True, include_meta=False) == {"$seq": 1, "$node": "n", "$tag": "t", "data": {"a": 1.0}}
    assert shown(include_data=False) == {"$seq": 1, "$node": "n", "meta": {"m": [1]}}


def test_line_breaks_in_data_do_not_break_frames(api: Api, name: str) -> None:
    api.done("POST", f"/v0/topics/{name}", b'{"records":[{"data":{"a":\n\n1,\r\n"b":\r"x\\ny"}},{"data":[\n]}]}')
    with api.stream(api.watch({name: {}})) as stream:
        (event,) = stream.until_seq(name, 2)
    assert [record["data"] for record in event.data["records"]] == [{"a": 1, "b": "x\ny"}, []]


def test_data_comes_verbatim(api: Api, name: str) -> None:
    text = '{"z":1.0E+05,"z":12345678901234567890, "a":"\\u0000\\u00e9","e":"😀"}'
    api.done("POST", f"/v0/topics/{name}", f'{{"records":[{{"data":{text}}}]}}'.encode())
    with api.stream(api.watch({name: {}})) as stream:
        data = b""
        while b'"to_seq"' not in data:
            data += stream.read()
    assert f'"data":{text}}}'.encode() in data


def test_heartbeats_only_when_idle(api: Api, name: str) -> None:
    """By the server's stamps: the time of a heartbeat lies between each and what was sent before it."""
    api.append(name, 0)
    with api.stream(api.watch({name: {"tail": True}}, heartbeat_ms=1000)) as stream:
        sent: list[int] = []  # the stamps of records and heartbeats

        def heartbeats() -> int:
            """Returns how many have come since the last look."""
            beats = [int(comment.removeprefix(": hb ")) for comment in stream.comments]
            stream.comments.clear()
            for beat in beats:
                assert not sent or beat - sent[-1] > 900
                sent.append(beat)
            return len(beats)

        while not sent or sent[-1] - sent[0] < 2500:
            event = stream.until_seq(name, api.append(name, 1))[-1]
            heartbeats()
            sent.append(event.data["records"][-1]["$ts"])
        came = 0
        while came < 2:
            assert stream.take(stream.read()) == []
            came += heartbeats()
    assert abs(sent[-1] - time.time() * 1000) < 60_000


def test_strong_consistency_delivers(api: Api, name: str) -> None:
    for durability in ("disk", "fsync", "memory"):
        topic = f"{name}-{durability}"
        api.done("PUT", f"/v0/topics/{topic}", {"durability": durability})
        with api.stream(api.watch({topic: {}}, consistency="strong")) as stream:
            stream.until_event("caught-up")
            for seq in range(1, 6):
                api.append(topic, seq)
                assert seqs(stream.until_seq(topic, seq)) == [seq]


XID = (
    "SELECT r.xmin::text FROM topics_record r JOIN topics_topic t ON t.id = r.topic_id WHERE t.name = %s AND r.seq = %s"
)


@pytest.mark.guarantee("R4")
def test_strong_shows_only_what_is_flushed(api: Api, name: str, server) -> None:
    api.done("PUT", f"/v0/topics/{name}", {"durability": "disk"})
    with api.stream(api.watch({name: {}}, consistency="strong")) as stream, server.connect() as database:
        stream.until_event("caught-up")
        for seq in range(1, 20):
            before = database.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]
            api.append(name, seq)
            stream.until_seq(name, seq)
            flushed = database.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()[0]
            last = database.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]
            # Others may have written after the append, and need not be flushed. The append itself has to be.
            if flushed != last:
                (xid,) = database.execute(XID, [name, seq]).fetchone()
                written = written_by(xid, server, database, before, last)
                assert written
                assert max(written) < position(flushed), f"seq {seq} was not flushed"


def position(lsn: str) -> int:
    high, low = lsn.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def written_by(xid: str, server: Instance, database: psycopg.Connection[Any], first: str, last: str) -> list[int]:
    """Returns where the WAL records of a transaction begin, between two positions."""
    flushed = "SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn"
    until(lambda: database.execute(flushed, [last]).fetchone()[0], "the WAL to be on disk")  # type: ignore[index]
    program = Path(server.environment["TOPICS_POSTGRESQL"], "pg_waldump")
    (segment,) = database.execute("SELECT pg_walfile_name(%s)", [first]).fetchone()  # type: ignore[misc]
    argv = [program, "-s", first, "-e", last, server.data / "postgresql" / "pg_wal" / segment]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return [position(lsn) for lsn in re.findall(rf"tx: +{xid}, lsn: ([0-9A-F]+/[0-9A-F]+)", told)]


def test_a_client_that_takes_no_stream_is_refused(api: Api, name: str) -> None:
    api.append(name, 1)
    url = api.watch({name: {}})
    for accept, status in (("application/json", 406), ("text/event-stream;q=0", 406)):
        with pytest.raises(Refused) as refused:
            api.stream(url, Accept=accept)
        assert (refused.value.status, refused.value.code) == (status, "not_acceptable")
    for accept in ("text/event-stream", "*/*", "text/*, application/json", "text/html, text/event-stream;q=0.5"):
        api.stream(url, Accept=accept).close()


@pytest.mark.parametrize("wid", ["wid_AAAAAAAAAAAAAAAAAAAAAA", "x", "", "a/b", "%00", "%ff", "x" * 5000])
def test_an_unknown_session(api: Api, wid: str) -> None:
    with pytest.raises(Refused) as refused:
        api.stream(f"/v0/watch/{wid}")
    assert refused.value.status in (400, 404, 405)


def test_streams_of_one_session_at_once(api: Api, name: str) -> None:
    api.append(name, 1)
    url = api.watch({name: {}})
    with api.stream(url) as one, api.stream(url) as other:
        for stream in (one, other):
            assert isinstance(stream, Stream)
            stream.until_seq(name, 1)
        api.append(name, 2)
        assert seqs(one.until_seq(name, 2)) == [2]
        assert seqs(other.until_seq(name, 2)) == [2]
