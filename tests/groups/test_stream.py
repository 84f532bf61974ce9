"""GET /v0/topics/:topic/groups/:group/stream: shares, commits, moves and ends."""

import zlib

import pytest

from tests.groups.conftest import Join
from tests.instances import Instance, until
from tests.watch.wire import Api, Refused


def state(api: Api, topic: str, group: str = "billing") -> dict:
    return api.done("GET", f"/v0/topics/{topic}/groups/{group}")


def test_a_member_alone_has_all_shares_and_records(api: Api, join: Join, topic: str) -> None:
    last = api.append(topic, *({"data": n, "tag": f"t{n % 5}"} for n in range(20)))
    member = join(topic, member="one", partitions=8)
    assert len(member.next("assigned").data["shares"]) == 8
    events = member.until_seqs(*range(1, last + 1))
    assert sorted(seq for _, seq in member.seen) == list(range(1, 21))
    for event in events:
        for record in event.data["records"]:
            assert zlib.crc32(record["$tag"].encode()) % 8 == event.data["share"]
        assert event.seqs == sorted(event.seqs)
    assert member.commit(*events).status == 200
    until(lambda: state(api, topic)["lag"] == 0, "the cursors to reach the head")
    found = state(api, topic)
    assert [each["member"] for each in found["members"]] == ["one"]
    assert found["members"][0]["shares"] == list(range(8))
    assert found["oldest_unread_ms"] is None


@pytest.mark.guarantee("R8")
def test_a_second_member_gets_half_when_the_first_has_committed(api: Api, join: Join, topic: str) -> None:
    api.append(topic, *({"data": n, "tag": f"t{n}"} for n in range(40)))
    one = join(topic, member="one", partitions=8)
    events = one.until_seqs(*range(1, 41))
    two = join(topic, member="two")
    revoked = {each["share"] for each in one.next("revoked").data["shares"]}
    assert len(revoked) == 4
    found = state(api, topic)
    assert {each["member"] for each in found["shares"]} == {"one"}  # nothing is committed yet
    assert {each["share"] for each in found["shares"] if each["next_member"] == "two"} == revoked
    api.append(topic, *({"data": n, "tag": f"t{n}"} for n in range(40)))
    later = one.until_seqs(*(s for s in range(41, 81) if zlib.crc32(f"t{s - 41}".encode()) % 8 not in revoked))
    assert not revoked & {each.data["share"] for each in later}
    assert one.commit(*events).status == 200
    while len(two.generations) < 4:
        two.next("assigned")
    assert set(two.generations) == revoked
    events = two.until_seqs(*(s for s in range(41, 81) if zlib.crc32(f"t{s - 41}".encode()) % 8 in revoked))
    assert min(seq for _, seq in two.seen) > 40
    # The first member's commit of a moved share is refused, and so is everything sent with it.
    share = min(revoked)
    wanted = {"share": share, "generation": one.generations[share], "seq": 80}
    answer = api.call("POST", f"{one.path}/commit", {"session": one.session, "shares": [wanted]})
    assert (answer.status, answer.body["error"]["code"]) == (409, "share_moved")
    assert answer.body["error"]["detail"] == {"shares": [share]}


def test_a_session_that_times_out_loses_its_shares(api: Api, join: Join, topic: str) -> None:
    api.append(topic, {"data": 1, "tag": "a"})
    one = join(topic, member="one", session_ms=1000, partitions=1)
    (event,) = one.until_seqs(1)
    two = join(topic, member="two", session_ms=60_000)
    assert two.until_seqs(1)[0].data["generation"] == event.data["generation"] + 1
    assert one.next("error").data["code"] == "session_ended"
    answer = one.commit(event)
    assert (answer.status, answer.body["error"]["code"]) == (409, "session_ended")


def test_a_member_that_leaves_gives_its_shares_away_at_once(api: Api, join: Join, topic: str) -> None:
    api.append(topic, {"data": 1, "tag": "a"})
    one = join(topic, member="one", session_ms=600_000, partitions=4)
    one.until_seqs(1)
    two = join(topic, member="two")
    assert one.leave().status == 200
    two.until_seqs(1)
    until(lambda: [len(each["shares"]) for each in state(api, topic)["members"]] == [4], "two to have all shares")
    assert one.leave().body["error"]["code"] == "session_ended"


def test_a_second_stream_of_a_name_replaces_the_first(api: Api, join: Join, topic: str) -> None:
    api.append(topic, {"data": 1, "tag": "a"})
    first = join(topic, member="one", partitions=1)
    (event,) = first.until_seqs(1)
    second = join(topic, member="one")
    assert first.next("error").data["code"] == "session_ended"
    (again,) = second.until_seqs(1)
    assert again.data["generation"] > event.data["generation"]
    assert first.commit(event).status == 409
    assert second.commit(again).status == 200


def test_a_trimmed_share_gets_a_tombstone_until_it_is_committed(api: Api, join: Join, topic: str) -> None:
    api.done("PUT", f"/v0/topics/{topic}", {"cap_records": 5})
    join(topic, member="one", partitions=2).close()
    api.append(topic, *({"data": n, "tag": f"t{n}"} for n in range(20)))
    member = join(topic, member="one")
    first, second = member.next("tombstone"), member.next("tombstone")
    assert {first.data["share"], second.data["share"]} == {0, 1}
    assert (first.data["reason"], first.data["gap_from"], first.data["gap_to"]) == ("cap", 1, 15)
    again = join(topic, member="one")
    lost = [again.next("tombstone"), again.next("tombstone")]
    assert [each.data["gap_to"] for each in lost] == [15, 15]
    again.until_seqs(*range(16, 21))
    assert again.commit(*lost).status == 200
    third = join(topic, member="one")
    third.until_seqs(*range(16, 21))


def test_a_deleted_topic_ends_its_groups(api: Api, join: Join, topic: str) -> None:
    member = join(topic, member="one")
    member.next("assigned")
    api.done("DELETE", f"/v0/topics/{topic}")
    assert member.next("topic-deleted", "error").name == "topic-deleted"
    assert list(member.events) == []
    assert api.call("GET", f"/v0/topics/{topic}/groups/billing").body["error"]["code"] == "topic_not_found"
    api.append(topic, {"data": 1})
    assert api.call("GET", f"/v0/topics/{topic}/groups/billing").body["error"]["code"] == "not_found"
    again = join(topic, member="one")
    assert again.next("record", "tombstone").data["records"][0]["data"] == 1


def test_a_deleted_group_ends_its_streams(api: Api, join: Join, topic: str) -> None:
    member = join(topic, member="one")
    assert api.done("DELETE", f"/v0/topics/{topic}/groups/billing")["deleted"] is True
    assert member.next("error").data["code"] == "session_ended"
    assert api.done("DELETE", f"/v0/topics/{topic}/groups/billing")["deleted"] is False


@pytest.mark.parametrize(
    ("partition_by", "record", "key"),
    [
        ("tag", {"data": 1, "tag": "order:7"}, b"order:7"),
        ("tag_prefix::", {"data": 1, "tag": "order:7"}, b"order"),
        ("node", {"data": 1, "node": "berlin"}, b"berlin"),
        ("$.user.id", {"data": {"user": {"id": "u1"}}}, b"u1"),
        ("$.lines[1]", {"data": {"lines": [1, 2.50]}}, b"2.5"),
        ("$.user.id", {"data": {"user": 1}}, b""),
        ("$.user", {"data": {"user": None}}, b""),
        ("tag", {"data": 1}, b""),
    ],
)
def test_the_key_decides_the_share(
    api: Api, join: Join, topic: str, partition_by: str, record: dict, key: bytes
) -> None:
    api.append(topic, record)
    member = join(topic, partition_by=partition_by)
    (event,) = member.until_seqs(1)
    assert event.data["share"] == zlib.crc32(key) % 64


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("partitions=0", 400),
        ("partitions=1025", 400),
        ("session_ms=999", 400),
        ("partition_by=colour", 400),
        ("partition_by=$.a..b", 400),
        ("from_seq=1&tail=true", 400),
        ("from_seq=99", 400),
        ("member=a/b", 400),
        ("node=x", 400),
        ("partitions=8", 409),
        ("partition_by=node", 409),
        ("from_seq=1", 409),
        ("tail=true", 409),
        ("partitions=4&partition_by=tag&from_seq=0", 200),
    ],
)
def test_what_is_not_honoured_is_refused(api: Api, join: Join, topic: str, query: str, status: int) -> None:
    api.append(topic, 1, 2)
    if status != 400:
        join(topic, partitions=4).close()
    try:
        with api.stream(f"/v0/topics/{topic}/groups/billing/stream?{query}") as stream:
            assert stream.status == status
    except Refused as refused:
        assert refused.status == status
    if status == 400:
        assert api.call("GET", f"/v0/topics/{topic}/groups/billing").status == 404


def test_a_group_starts_where_its_first_member_says(api: Api, join: Join, topic: str) -> None:
    api.append(topic, 1, 2, 3)
    late = join(topic, "late", tail="true")
    middle = join(topic, "middle", from_seq=2)
    api.append(topic, 4)
    late.until_seqs(4)
    assert [seq for _, seq in late.seen] == [4]
    middle.until_seqs(3, 4)
    assert [seq for _, seq in middle.seen] == [3, 4]


def test_the_session_of_an_idle_member_lives_on(server: Instance, join: Join, topic: str) -> None:
    member = join(topic, session_ms=1000)
    with server.connect() as connection:

        def has_outlived_two_sessions() -> bool:
            connection.execute("SELECT groups_assign(group_id) FROM groups_member WHERE id = %s", (member.session,))
            rows = connection.execute("SELECT seen_ts - joined_ts FROM groups_member WHERE id = %s", (member.session,))
            ((lived_ms,),) = rows.fetchall()
            return lived_ms > 2000

        until(has_outlived_two_sessions, "an idle member to outlive two sessions")


def test_a_session_begins_with_the_first_record_that_waits(server: Instance, api: Api, join: Join, topic: str) -> None:
    member = join(topic, session_ms=600_000)
    seen = "SELECT seen_ts FROM groups_member WHERE id = %s"
    with server.connect() as connection:
        ((joined_ts,),) = connection.execute(seen, (member.session,)).fetchall()
        until(lambda: connection.execute(seen, (member.session,)).fetchall() > [(joined_ts,)], "the member to be idle")
        api.append(topic, 1)
        sent_ts = member.next("record").data["records"][0]["$ts"]
        until(lambda: connection.execute(seen, (member.session,)).fetchall() >= [(sent_ts,)], "the session to begin")


def test_the_stream_pauses_while_too_much_is_in_flight(api: Api, join: Join, topic: str) -> None:
    api.append(topic, *range(600))
    member = join(topic, max_in_flight=10)
    first = member.next("record")
    assert len(first.seqs) == 256
    assert member.commit(first).status == 200
    second = member.next("record")
    assert second.seqs[0] == 257
    assert len(join(topic, "large").next("record").seqs) == 600  # a read has up to `max_in_flight` records


@pytest.mark.parametrize(
    "commit",
    [
        {"shares": [{"share": 0, "generation": 1, "seq": 3}]},
        {"shares": [{"share": 0, "generation": 1, "seq": 1}, {"share": 0, "generation": 1, "seq": 1}]},
        {"shares": [{"share": 1024, "generation": 1, "seq": 1}]},
        {"shares": [{"share": 0, "generation": 1}]},
        {"shares": [], "member": "one"},
    ],
)
def test_an_invalid_commit_is_refused(api: Api, join: Join, topic: str, commit: dict) -> None:
    api.append(topic, 1, 2)
    member = join(topic, partitions=1)
    answer = api.call("POST", f"{member.path}/commit", {"session": member.session, **commit})
    assert (answer.status, answer.body["error"]["code"]) == (400, "invalid_request")


def test_groups_are_listed_in_pages(api: Api, join: Join, topic: str) -> None:
    for name in ("c", "a", "b"):
        join(topic, name, member="one").close()
    first = api.done("GET", f"/v0/topics/{topic}/groups?page_size=2")
    assert [each["group"] for each in first["groups"]] == ["a", "b"]
    rest = api.done("GET", f"/v0/topics/{topic}/groups?page_size=2&cursor={first['next_cursor']}")
    assert [each["group"] for each in rest["groups"]] == ["c"]
    assert "next_cursor" not in rest


def test_a_record_that_cannot_be_decoded_stops_no_share(api: Api, join: Join, server: Instance, topic: str) -> None:
    api.append(topic, {"data": {"a": 1}, "tag": "x"}, {"data": {"a": 2}, "tag": "y"}, {"data": {"a": 3}, "tag": "z"})
    with server.connect() as database:  # no call of the API can write such JSON
        database.execute(
            "UPDATE topics_record SET data = %s WHERE seq = 2 AND topic_id = (SELECT id FROM topics_topic WHERE name = %s)",
            ['{"a": "\\ud800"}', topic],
        )
    for options in ({}, {"group": "by-path", "partition_by": "$.a"}):
        member = join(topic, **options)
        member.until_seqs(1, 2, 3)


def test_a_queue_has_no_groups(api: Api, topic: str) -> None:
    queue = f"{topic}-queue"
    api.done("PUT", f"/v0/topics/{queue}", {"type": "queue"})
    with pytest.raises(Refused) as refused:
        api.stream(f"/v0/topics/{queue}/groups/billing/stream")
    assert (refused.value.status, refused.value.code) == (409, "topic_exists_incompatible")
