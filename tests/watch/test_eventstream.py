"""GET /v0/topics/:topic/events: django-eventstream's stream over the log."""

import pytest

from tests.crashes import take_back
from tests.instances import Instance
from tests.watch.wire import Api, Event, Refused, Stream, names, new_name


def messages(stream: Stream, count: int) -> list[Event]:
    got: list[Event] = []
    stream.until(lambda event: event.name == "message" and (got.append(event) or len(got) == count))
    return got


def test_it_works(api: Api, name: str) -> None:
    api.append(name, "old")
    with api.stream(f"/v0/topics/{name}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.until_event("stream-open")
        api.append(name, {"data": {"n": 1}, "tag": "t", "node": "n", "meta": {"m": 1}}, "second")
        one, two = messages(stream, 2)
    assert one.data.pop("$ts")
    assert one.data == {"$seq": 2, "$node": "n", "$tag": "t", "meta": {"m": 1}, "data": {"n": 1}}
    assert (one.id, two.id, two.data["data"]) == (f"{name}:2", f"{name}:3", "second")


def test_it_resumes(api: Api, name: str) -> None:
    api.append(name, *range(300))
    with api.stream(f"/v0/topics/{name}/events", f"{name}:0") as stream:
        got = messages(stream, 300)
        assert [event.data["$seq"] for event in got] == list(range(1, 301))
    for seq in (1, 150, 299):
        with api.stream(f"/v0/topics/{name}/events", got[seq - 1].id) as stream:
            assert messages(stream, 1)[0].data["$seq"] == seq + 1
    with api.stream(f"/v0/topics/{name}/events?lastEventId={name}:42") as stream:
        assert messages(stream, 1)[0].data["$seq"] == 43


def test_it_starts_after_a_seq(api: Api, name: str) -> None:
    api.append(name, *range(10))
    for query, last_id, first in (
        ("from_seq=0", None, 1),
        ("from_seq=7", None, 8),
        ("from_seq=2", f"{name}:5", 6),  # an EventSource reconnects with the URL that it had
        (f"from_seq=2&lastEventId={name}:6", None, 7),
    ):
        with api.stream(f"/v0/topics/{name}/events?{query}", last_id) as stream:
            assert messages(stream, 1)[0].data["$seq"] == first


@pytest.mark.parametrize("match", ["a", "%5B%22tag%22,%22Glob%22,%22a*%22%5D"])
def test_it_sends_only_matches(api: Api, name: str, match: str) -> None:
    api.append(name, *({"data": n, "tag": "ab"[n % 2]} for n in range(300)))
    with api.stream(f"/v0/topics/{name}/events?from_seq=0&match={match}") as stream:
        got = messages(stream, 150)
        assert [event.data["$seq"] for event in got] == list(range(1, 300, 2))
        api.append(name, {"data": "new", "tag": "b"}, {"data": "new", "tag": "a"})
        assert messages(stream, 1)[0].id == f"{name}:302"


def test_names_with_colons(api: Api) -> None:
    name = f"a:b:{new_name()}"
    api.append(name, 1)
    with api.stream(f"/v0/topics/{name}/events") as stream:
        stream.until_event("stream-open")
        api.append(name, 2, 3)
        first, _ = messages(stream, 2)
    with api.stream(f"/v0/topics/{name}/events", first.id) as stream:
        assert messages(stream, 1)[0].data["$seq"] == 3


def test_a_loss_is_told(api: Api, name: str) -> None:
    api.done("PUT", f"/v0/topics/{name}", {"cap_records": 3})
    for value in range(10):
        api.append(name, value)
    with api.stream(f"/v0/topics/{name}/events", f"{name}:2") as stream:
        opened, reset, *got = stream.until(lambda event: event.name == "message" and event.data["$seq"] == 10)
    assert (opened.name, reset.name, reset.data, reset.id) == (
        "stream-open",
        "stream-reset",
        {"channels": [name]},
        f"{name}:7",
    )
    assert [event.data["$seq"] for event in got] == [8, 9, 10]


def test_what_a_crash_took_back_is_told(api: Api, server: Instance, name: str) -> None:
    """By the reset's data, and by a watch stream's tombstone."""
    api.append(name, *"abcde")
    with server.connect() as database:
        take_back(database.execute, name, 3)
    api.append(name, "f")
    with api.stream(f"/v0/topics/{name}/events", f"{name}:5") as stream:
        _, reset, new = stream.until_event("message")
    assert reset.data == {"channels": [name], "lost_from": 4}
    assert reset.id == f"{name}:{new.data['$seq'] - 1}"
    for seq, lost_from in (2, 4), (3, 4), (5, 4):
        with api.stream(api.watch({name: {"from_seq": seq}})) as stream:
            (lost,) = [event for event in stream.until_event("caught-up") if event.name == "tombstone"]
        assert (lost.data.get("cause", lost.data["reason"]), lost.data["lost_from"]) == ("restart", lost_from)
        assert (lost.data["gap_from"], lost.data["gap_to"]) == (max(seq, 3) + 1, new.data["$seq"] - 1)


def test_a_topic_that_is_created_again(api: Api, name: str) -> None:
    api.append(name, 1, 2, 3)
    with api.stream(f"/v0/topics/{name}/events", f"{name}:3") as stream:
        stream.until_event("stream-open")
        api.done("DELETE", f"/v0/topics/{name}")
        api.append(name, "new")
        reset, new = stream.until_event("message")
    assert (reset.name, reset.id, new.data["data"]) == ("stream-reset", f"{name}:3", "new")


@pytest.mark.guarantee("W5")
@pytest.mark.parametrize("seq", [1, 3])
def test_a_topic_that_was_created_again_meanwhile(api: Api, name: str, seq: int) -> None:
    """Its seqs continue behind what was read of its predecessor, and none of its records was read."""
    api.append(name, 1, 2, 3)
    api.done("DELETE", f"/v0/topics/{name}")
    api.append(name, "a", "b")
    with api.stream(f"/v0/topics/{name}/events", f"{name}:{seq}") as stream:
        opened, reset, *got = stream.until(lambda event: event.name == "message" and event.data["$seq"] == 5)
    assert (opened.name, reset.name, reset.id) == ("stream-open", "stream-reset", f"{name}:3")
    assert [event.data["data"] for event in got] == ["a", "b"]
    with api.stream(f"/v0/topics/{name}/events", got[0].id) as stream:
        assert names(stream.until_event("message")) == ["stream-open", "message"]


def test_an_empty_topic_that_was_created_again_is_told_once(api: Api, name: str) -> None:
    api.append(name, 1, 2, 3)
    api.done("DELETE", f"/v0/topics/{name}")
    api.done("PUT", f"/v0/topics/{name}", {})
    with (
        api.stream(f"/v0/topics/{name}/events", f"{name}:1") as behind,
        api.stream(f"/v0/topics/{name}/events", f"{name}:3") as there,
        api.stream(f"/v0/topics/{name}/events") as fresh,
    ):
        behind.until_event("stream-reset")
        for stream in there, fresh:
            stream.until_event("stream-open")
        api.append(name, "new")
        assert names(behind.until_event("message")) == ["message"]
        assert names(there.until_event("message")) == ["stream-reset", "message"]
        assert names(fresh.until_event("message")) == ["message"]


def test_what_is_refused(api: Api, name: str) -> None:
    with pytest.raises(Refused) as refused:
        api.stream(f"/v0/topics/{name}/events")
    assert (refused.value.status, refused.value.code) == (404, "topic_not_found")
    api.append(name, 1)
    with pytest.raises(Refused) as refused:
        api.stream(f"/v0/topics/{name}/events", Accept="application/json")
    assert refused.value.status == 406
    assert api.call("POST", f"/v0/topics/{name}/events", {}).status == 405
    for query in "from_seq=x", "from_seq=-1", "match=a*", "match=[":
        with pytest.raises(Refused) as refused:
            api.stream(f"/v0/topics/{name}/events?{query}")
        assert (refused.value.status, refused.value.code) == (400, "invalid_request")
    with api.stream(f"/v0/topics/{name}/events?lastEventId=other:1") as stream:
        assert stream.rest()[-1].name == "stream-error"
    for garbage in ("garbage", f"{name}:x", f"{name}:-1", f"{name}:{2**63}", "other:1", f"{name}x:1"):
        with api.stream(f"/v0/topics/{name}/events", garbage) as stream:
            assert stream.rest()[-1].name == "stream-error"
    for of_a_proxy in ("es-meta=x", "recover=true"):
        with api.stream(f"/v0/topics/{name}/events?{of_a_proxy}") as stream:
            assert [event.name for event in stream.rest()] == ["stream-error"]


def test_the_id_of_a_refusal_stands_behind_its_data(api: Api, name: str) -> None:
    api.append(name, 1)
    with api.stream(f"/v0/topics/{name}/events?recover=true") as stream:
        fields = [line.partition(":")[0] for line in stream.response.read().decode().splitlines() if line]
    assert fields == ["event", "data", "id"]


def test_many_at_once(api: Api, name: str) -> None:
    api.append(name, 1)
    streams = [api.stream(f"/v0/topics/{name}/events", f"{name}:1") for _ in range(40)]
    for stream in streams:
        stream.until_event("stream-open")
    api.append(name, "for all")
    for stream in streams:
        assert messages(stream, 1)[0].data["data"] == "for all"
        stream.close()
