"""Changes of a topic under its streams: deleted, recreated, evicted, expired, records deleted."""

import pytest

from tests.watch.wire import Api, names, new_name, seqs


def drop(api: Api, topic: str) -> None:
    assert api.done("DELETE", f"/v0/topics/{topic}")["deleted"]


def drop_and_create(api: Api, topic: str) -> None:
    drop(api, topic)
    api.done("PUT", f"/v0/topics/{topic}", {})


def test_a_deleted_topic_is_told_and_the_others_go_on(api: Api) -> None:
    doomed, other = new_name(), new_name()
    api.append(doomed, 1, 2)
    api.append(other, 1)
    with api.stream(api.watch({doomed: {}, other: {}})) as stream:
        stream.until(lambda event: event.place == {doomed: 2, other: 1})
        drop(api, doomed)
        told = stream.until_event("topic-deleted")[-1]
        assert told.data == {"topic": doomed, "head_seq": 2, "reason": "deleted"}
        assert told.place == {other: 1}
        api.append(other, 2)
        (event,) = stream.until_seq(other, 2)
        assert event.place == {other: 2}


def test_a_deletion_is_told_again_to_who_has_not_heard_it(api: Api) -> None:
    doomed, other = new_name(), new_name()
    api.append(doomed, 1)
    api.append(other, 1)
    url = api.watch({doomed: {}, other: {}})
    with api.stream(url) as stream:
        seen = stream.until(lambda event: event.place == {doomed: 1, other: 1})[-1]
    drop(api, doomed)
    with api.stream(url, seen.id) as stream:
        told = stream.until_event("topic-deleted")[-1]
    with api.stream(url, seen.id) as stream:
        stream.until_event("topic-deleted")
    api.append(other, 2)
    with api.stream(url, told.id) as stream:
        assert names(stream.until_seq(other, 2)) == ["record"]


def test_a_deletion_told_at_the_beginning_is_told_again_without_an_id(api: Api, name: str) -> None:
    api.append(name, 1)
    url = api.watch({name: {}}, heartbeat_ms=1000)
    drop(api, name)
    for _ in range(2):
        with api.stream(url) as stream:
            stream.until_event("topic-deleted")
    with api.stream(url) as stream:
        while not stream.comments:  # now it has arrived
            stream.take(stream.read())
    api.append(name, "new")
    with api.stream(url) as stream:
        lost, new, _ = stream.until_event("caught-up")
        assert (lost.data["reason"], new.seqs) == ("recreated", [2])


@pytest.mark.guarantee("W5")
def test_a_topic_that_is_created_again_continues(api: Api, name: str) -> None:
    api.append(name, 1, 2, 3)
    url = api.watch({name: {}})
    with api.stream(url) as stream:
        old = stream.until_event("caught-up")[-1]
        drop(api, name)
        stream.until_event("topic-deleted")
        api.append(name, "new 1", "new 2")
        lost, new, caught_up = stream.until_event("caught-up")
        assert (lost.name, lost.data["reason"]) == ("tombstone", "recreated")
        assert (lost.data["gap_from"], lost.data["gap_to"]) == (4, 3)  # nothing lies between
        assert (lost.data["earliest_seq"], lost.data["head_seq"]) == (4, 5)
        assert new.seqs == [4, 5]
        assert caught_up.place[name] == 5
        api.append(name, "new 3")
        assert seqs(stream.until_seq(name, 6)) == [6]
    # An id of the old topic has seen nothing of the new one.
    with api.stream(url, old.id) as stream:
        events = stream.until_event("caught-up")
        assert (events[0].name, events[0].data["reason"], seqs(events)) == ("tombstone", "recreated", [4, 5, 6])
    with api.stream(url, new.id) as stream:
        assert seqs(stream.until_event("caught-up")) == [6]


def test_an_id_of_a_deletion_has_seen_nothing_of_the_topic_that_came_after_it(api: Api, name: str) -> None:
    api.append(name, 1, 2, 3)
    url = api.watch({name: {}}, heartbeat_ms=1000)
    with api.stream(url) as stream:
        stream.until_event("caught-up")
        drop(api, name)
        deleted = stream.until_event("topic-deleted")[-1]
        api.append(name, "new 1", "new 2")
        stream.until_event("caught-up")
        while not stream.comments:  # the server takes it for arrived, and the client says that it is not
            stream.take(stream.read())
    with api.stream(url, deleted.id) as stream:
        events = stream.until_event("caught-up")
    assert names(events) == ["tombstone", "record", "caught-up"]
    assert (events[0].data["reason"], seqs(events)) == ("recreated", [4, 5])


def test_created_anew_while_nobody_watched(api: Api, name: str) -> None:
    api.append(name, 1, 2, 3)
    url = api.watch({name: {}})
    with api.stream(url) as stream:
        seen = stream.until_event("caught-up")[-1]
    drop(api, name)
    api.append(name, "a", "b", "c", "d", "e")
    with api.stream(url, seen.id) as stream:
        events = stream.until_event("caught-up")
    assert (names(events)[0], events[0].data["reason"]) == ("tombstone", "recreated")
    assert seqs(events) == [4, 5, 6, 7, 8]
    # A session of its own, by a client that sends the seq it has and nothing else.
    for seq in (2, 3):
        with api.stream(api.watch({name: {"from_seq": seq}})) as stream:
            lost, record, _ = stream.until_event("caught-up")
        assert (lost.data["reason"], lost.data["gap_from"], lost.data["gap_to"]) == ("recreated", seq + 1, 3)
        assert record.seqs == [4, 5, 6, 7, 8]


def test_an_empty_topic_that_was_created_again_is_told_once(api: Api, name: str) -> None:
    api.append(name, 1, 2, 3)
    drop_and_create(api, name)
    with (
        api.stream(api.watch({name: {"from_seq": 1}})) as behind,
        api.stream(url := api.watch({name: {"from_seq": 3}})) as there,
        api.stream(api.watch({name: {"tail": True}})) as tail,
    ):
        lost, caught_up = behind.until_event("caught-up")
        assert (lost.data["reason"], lost.data["gap_from"], lost.data["gap_to"]) == ("recreated", 2, 3)
        assert caught_up.place == {name: 3}
        assert names(there.until_event("caught-up")) == ["caught-up"]
        assert names(tail.until_event("caught-up")) == ["caught-up"]
        api.append(name, "new")
        assert names(behind.until_seq(name, 4)) == ["record"]
        assert names(there.until_seq(name, 4)) == ["tombstone", "record"]
        assert names(tail.until_seq(name, 4)) == ["record"]
    with api.stream(url, there.last_id) as stream:
        assert names(stream.until_event("caught-up")) == ["caught-up"]


def test_a_tail_is_told_of_the_topic_that_took_the_place_of_its_own(api: Api, name: str) -> None:
    api.append(name, 1)
    url = api.watch({name: {"tail": True}})
    with api.stream(url) as stream:
        stream.until_event("caught-up")
    drop_and_create(api, name)
    with api.stream(url, stream.last_id) as stream:
        assert names(stream.until_event("caught-up")) == ["caught-up"]
        api.append(name, "new")
        assert names(stream.until_seq(name, 2)) == ["tombstone", "record"]


def test_from_seq_beyond_the_head(api: Api, name: str) -> None:
    api.append(name, 1, 2)
    with api.stream(api.watch({name: {"from_seq": 50}})) as stream:
        lost, record, _ = stream.until_event("caught-up")
    assert (lost.data["reason"], lost.data["gap_from"], lost.data["gap_to"]) == ("recreated", 1, 0)
    assert record.seqs == [1, 2]


def test_evicted_before_the_stream_came(api: Api, name: str) -> None:
    api.done("PUT", f"/v0/topics/{name}", {"cap_records": 5})
    for _ in range(10):
        api.append(name, 1, 2)
    with api.stream(api.watch({name: {}})) as stream:
        lost, record, _ = stream.until_event("caught-up")
    assert lost.data == {
        "topic": name,
        "reason": "from_seq_too_old",
        "cause": "cap",
        "gap_from": 1,
        "gap_to": 15,
        "earliest_seq": 16,
        "head_seq": 20,
    }
    assert lost.place == {name: 15}
    assert record.seqs == [16, 17, 18, 19, 20]


@pytest.mark.guarantee("R1")
def test_evicted_under_a_reader_that_is_late(api: Api, name: str) -> None:
    api.done("PUT", f"/v0/topics/{name}", {"cap_records": 2000})
    payload = "x" * 4000
    api.append(name, *[payload] * 1000)
    with api.stream(api.watch({name: {}})) as stream:
        events = [next(stream.events())]  # and then it reads no more for a while
        for _ in range(12):
            head = api.append(name, *[payload] * 1000)
        events += stream.until_seq(name, head)
    lost = [event for event in events if event.name == "tombstone"]
    assert lost
    assert {event.data["reason"] for event in lost} == {"cap"}
    told = {seq for event in lost for seq in range(event.data["gap_from"], event.data["gap_to"] + 1)}
    got = seqs(events)
    assert len(got) == len(set(got))
    assert sorted(told | set(got)) == list(range(1, head + 1))
    assert not told & set(got)


def test_expired(api: Api, name: str) -> None:
    api.append(name, 1, 2)
    with api.stream(api.watch({name: {}}, heartbeat_ms=1000)) as stream:
        stream.until_event("caught-up")
        api.done("PUT", f"/v0/topics/{name}", {"ttl_ms": 200})
        while len(stream.comments) < 2:  # what it has read already may go: nothing is told
            assert stream.take(stream.read()) == []
    late = api.watch({name: {}})
    with api.stream(late) as stream:
        lost, caught_up = stream.until_event("caught-up")
    assert (lost.data["reason"], lost.data["cause"]) == ("from_seq_too_old", "ttl")
    assert (lost.data["gap_from"], lost.data["gap_to"], caught_up.place) == (1, 2, {name: 2})


def test_deleted_records_go_silently(api: Api, name: str) -> None:
    api.append(name, *[{"data": seq, "tag": "even" if seq % 2 == 0 else "odd"} for seq in range(1, 11)])
    api.done("POST", f"/v0/topics/{name}/delete", {"match": "even"})
    with api.stream(api.watch({name: {}}, limit=2)) as stream:
        assert seqs(stream.until_event("caught-up")) == [1, 3, 5, 7, 9]
    api.done("POST", f"/v0/topics/{name}/delete", {"before_seq": 8})
    with api.stream(api.watch({name: {}})) as stream:
        events = stream.until_event("caught-up")
    assert (names(events), seqs(events)) == (["record", "caught-up"], [9])


@pytest.mark.guarantee("R7")
def test_what_is_deleted_is_never_shown_to_who_comes_later(api: Api, name: str) -> None:
    with_streams = []
    api.append(name, *[{"data": seq, "tag": "t"} for seq in range(20)])
    for round in range(20):
        with_streams.append(api.stream(api.watch({name: {}})))  # reads, and shares what was read
        api.done("POST", f"/v0/topics/{name}/delete", {"before_seq": round + 2})
        with api.stream(api.watch({name: {}})) as stream:
            assert seqs(stream.until_event("caught-up")) == list(range(round + 2, 21))
    for stream in with_streams:
        stream.close()


def test_a_forwarded_topic(api: Api, name: str) -> None:
    dest = new_name("dest")
    api.append(name, 0)
    api.done("PUT", f"/v0/routers/{name}", {"source": name, "dest": dest})
    with api.stream(api.watch({dest: {}})) as stream:
        stream.until_event("caught-up")
        for seq in range(1, 6):
            api.append(name, {"data": seq, "node": "n"})
        events = stream.until_seq(dest, 5)
    assert seqs(events) == [1, 2, 3, 4, 5]
    assert {record["$node"] for event in events if event.name == "record" for record in event.data["records"]} == {"n"}
