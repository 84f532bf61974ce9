"""Consumer groups over a WebSocket: shares, commits, moves, ends, and the refusals of the stream."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.groups.member import joined
from tests.instances import Instance, until
from tests.sockets.client import Frame, Socket
from tests.watch.wire import Api, new_name

GROUP = "billing"


@pytest.fixture
def topic(api: Api) -> str:
    name = new_name("g")
    api.done("PUT", f"/v0/topics/{name}", {})
    return name


def join(socket: Socket, topic: str, group: str = GROUP, **options: Any) -> Frame:
    return socket.ask("join", topic=topic, group=group, **options)


def until_seqs(socket: Socket, *seqs: int) -> list[Frame]:
    """The frames with these records."""
    wanted, got = set(seqs), []
    while wanted:
        got.append(socket.next("record"))
        wanted -= {record["$seq"] for record in got[-1]["records"]}
    return got


def commit(socket: Socket, session: int, *frames: Frame) -> Frame:
    """Commits everything up to the end of these frames."""
    ends = {frame["share"]: frame for frame in frames}
    shares = [
        {"share": share, "generation": frame["generation"], "seq": frame.get("to_seq", frame.get("gap_to"))}
        for share, frame in ends.items()
    ]
    topic, group = frames[0]["topic"], frames[0]["group"]
    return socket.ask("commit", topic=topic, group=group, session=session, shares=shares)


def state(api: Api, topic: str) -> Any:
    return api.done("GET", f"/v0/topics/{topic}/groups/{GROUP}")


def test_a_member_alone_gets_all_records_and_commits_them(api: Api, socket: Socket, topic: str) -> None:
    api.append(topic, *({"data": n, "tag": f"t{n % 5}", "meta": {"n": n}} for n in range(20)))
    member = join(socket, topic, member="one", partitions=8)
    assert member == {
        "op": "joined", "request_id": 1, "topic": topic, "group": GROUP, "member": "one", "session": member["session"],
        "session_ms": 10_000, "partitions": 8, "partition_by": "tag",
    }  # fmt: skip
    assigned = socket.next("assigned")
    assert (assigned["topic"], assigned["group"], len(assigned["shares"])) == (topic, GROUP, 8)
    frames = until_seqs(socket, *range(1, 21))
    for frame in frames:
        assert (frame["group"], frame["head_seq"]) == (GROUP, 20)
        for record in frame["records"]:
            assert zlib.crc32(record["$tag"].encode()) % 8 == frame["share"]
            assert record["meta"] == {"n": record["data"]}
    done = commit(socket, member["session"], *frames)
    assert (done["op"], done["session"], done["head_seq"]) == ("committed", member["session"], 20)
    until(lambda: state(api, topic)["lag"] == 0, "the cursors to reach the head")
    assert [each["member"] for each in state(api, topic)["members"]] == ["one"]


def test_a_share_moves_from_a_socket_to_a_stream_with_its_commit(api: Api, socket: Socket, topic: str) -> None:
    api.append(topic, *({"data": n, "tag": f"t{n}"} for n in range(40)))
    session = join(socket, topic, member="one", partitions=8)["session"]
    frames = until_seqs(socket, *range(1, 41))
    with joined(api, topic, GROUP, member="two").stream as stream:
        revoked = {each["share"] for each in socket.next("revoked")["shares"]}
        assert len(revoked) == 4
        assert commit(socket, session, *frames)["op"] == "committed"
        assigned: set[int] = set()
        for event in stream.events():
            if event.name == "assigned":
                assigned |= {each["share"] for each in event.data["shares"]}
            if len(assigned) == 4:
                break
        assert assigned == revoked
        moved = next(frame for frame in frames if frame["share"] in revoked)
        refused = commit(socket, session, {**moved, "to_seq": 40})
        assert (refused["code"], refused["detail"]) == ("share_moved", {"shares": [moved["share"]]})


def test_the_session_of_a_closed_socket_times_out(api: Api, server: Instance, topic: str) -> None:
    api.append(topic, {"data": 1, "tag": "a"})
    with Socket(server.port) as closed, Socket(server.port) as other:
        first = join(closed, topic, member="one", partitions=1, session_ms=1000)
        [frame] = until_seqs(closed, 1)
        join(other, topic, member="two")
        closed.connection.close()
        [again] = until_seqs(other, 1)
        assert again["generation"] > frame["generation"]
        refused = commit(other, first["session"], frame)
        assert (refused["code"], refused["detail"]) == ("session_ended", {"session": first["session"]})


def test_a_second_session_of_a_name_ends_the_first(api: Api, server: Instance, topic: str) -> None:
    api.append(topic, {"data": 1, "tag": "a"})
    with Socket(server.port) as first, Socket(server.port) as second:
        session = join(first, topic, member="one", partitions=1)["session"]
        until_seqs(first, 1)
        join(second, topic, member="one")
        ended = first.next("error")
        assert (ended["topic"], ended["group"], ended["session"], ended["code"]) == (
            topic, GROUP, session, "session_ended",
        )  # fmt: skip
        until_seqs(second, 1)
        assert join(first, topic, member="three")["op"] == "joined"  # the socket lives on


def test_a_member_that_leaves_gets_no_more(api: Api, server: Instance, socket: Socket, topic: str) -> None:
    api.append(topic, {"data": 1, "tag": "a"})
    session = join(socket, topic, member="one", partitions=4, session_ms=600_000)["session"]
    until_seqs(socket, 1)
    refused = join(socket, topic, member="two")
    assert (refused["code"], refused["detail"]) == ("invalid_request", {"group": GROUP})
    with Socket(server.port) as other:
        join(other, topic, member="two")
        left = socket.ask("leave", topic=topic, group=GROUP, session=session)
        assert (left["op"], left["member"]) == ("left", "one")
        until_seqs(other, 1)
        until(lambda: [len(each["shares"]) for each in state(api, topic)["members"]] == [4], "two to have all shares")
        api.append(topic, {"data": 2, "tag": "a"})
        until_seqs(other, 2)
    again = socket.ask("leave", topic=topic, group=GROUP, session=session)
    assert again["code"] == "session_ended"
    assert [frame["op"] for frame in socket.frames if frame["op"] in ("record", "error")] == []


def test_losses_and_deletes_are_told(api: Api, socket: Socket, topic: str) -> None:
    api.done("PUT", f"/v0/topics/{topic}", {"cap_records": 5})
    joined(api, topic, GROUP, member="one", partitions=1).close()
    api.append(topic, *({"data": n, "tag": "t"} for n in range(20)))
    session = join(socket, topic, member="one")["session"]
    lost = socket.next("tombstone")
    assert (lost["group"], lost["share"], lost["reason"], lost["gap_from"], lost["gap_to"]) == (GROUP, 0, "cap", 1, 15)
    until_seqs(socket, *range(16, 21))
    assert commit(socket, session, lost)["op"] == "committed"
    api.done("DELETE", f"/v0/topics/{topic}")
    gone = socket.next("topic_deleted", "error")
    assert (gone["op"], gone["topic"], gone["group"]) == ("topic_deleted", topic, GROUP)
    assert join(socket, topic)["code"] == "topic_not_found"


def test_a_group_and_a_subscription_share_a_socket(api: Api, socket: Socket, topic: str) -> None:
    for group in (GROUP, "shipping"):
        join(socket, topic, group)
    socket.ask("subscribe", topic=topic)
    api.append(topic, {"data": 1})
    found = [socket.next("record") for _ in range(3)]
    assert sorted(frame.get("group", "") for frame in found) == ["", GROUP, "shipping"]


REFUSED: list[dict[str, Any]] = [
    {"partitions": 0},
    {"session_ms": 999},
    {"partition_by": "colour"},
    {"from_seq": 1, "tail": True},
    {"from_seq": 99},
    {"member": "a/b"},
    {"max_in_flight": "many"},
    {"group": "a/b"},
    {"node": "x"},
    {"token": "secret"},
    {"partitions": 8},
    {"partition_by": "node"},
    {"tail": True},
    {"topic": "absent"},
]


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_an_option_that_is_not_honoured_is_refused(
    api: Api, socket: Socket, topic: str, options: dict[str, Any]
) -> None:
    joined(api, topic, GROUP, partitions=4).close()
    refused = socket.ask("join", **{"topic": topic, "group": GROUP, **options})
    assert refused["op"] == "error"
    assert refused["code"] in ("invalid_request", "topic_exists_incompatible", "topic_not_found")
    assert socket.ask("ping")["op"] == "pong"


def test_a_join_needs_both_scopes_and_the_prefix(instances: Callable[..., Instance]) -> None:
    keys = "reads:read:a.,writes:write:a.,both:read+write:a.,all:read+write+admin+delete"
    instance = instances(TOPICS_API_KEYS=keys, WEB_WORKERS="1")
    for name in ("a.t", "b.t"):
        Api(instance.port, "all").done("PUT", f"/v0/topics/{name}", {})
    with Socket(instance.port, "both") as both, Socket(instance.port, "reads") as reads:
        session = join(both, "a.t")["session"]
        assert join(both, "b.t")["code"] == "forbidden"
        for other in (reads, Socket(instance.port, "writes")):
            assert join(other, "a.t")["code"] == "forbidden"
            for op, body in (("commit", {"shares": []}), ("leave", {})):
                assert other.ask(op, topic="a.t", group=GROUP, session=session, **body)["code"] == "forbidden"
        assert both.ask("commit", topic="a.t", group=GROUP, session=session)["op"] == "committed"


def test_a_client_that_does_not_read_loses_nothing(api: Api, server: Instance, topic: str) -> None:
    with Socket(server.port, max_queue=1) as socket:
        join(socket, topic, member="one", partitions=1, max_in_flight=100_000)
        for _ in range(30):
            api.append(topic, *({"data": "x" * 100_000} for _ in range(10)))
        assert api.done("GET", "/v0/health")["status"] == "ok"
        until_seqs(socket, *range(1, 301))
