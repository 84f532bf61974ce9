"""The long poll of a diff waits for an append in any process, and at most for its `wait_ms`."""

import threading
from dataclasses import replace

from tests.deadlines import DEADLINE
from tests.watch.wire import Api


def test_it_is_woken(api: Api, name: str) -> None:
    api.append(name, 1)
    for seq in range(2, 12):
        got: list = []
        asked = {"from_seq": seq - 1, "wait_ms": 30_000}
        poll = threading.Thread(target=lambda: got.append(api.done("POST", f"/v0/topics/{name}/diff", asked)))  # noqa: B023
        poll.start()
        api.append(name, seq)
        poll.join(DEADLINE)
        assert [record["$seq"] for record in got[0]["records"]] == [seq]


def test_it_does_not_wait_where_there_is_something(api: Api, name: str) -> None:
    api.append(name, 1, 2)
    impatient = replace(api, patience=20)  # gone before a wait would end
    assert len(impatient.done("POST", f"/v0/topics/{name}/diff", {"wait_ms": 30_000})["records"]) == 2
    assert impatient.done("POST", f"/v0/topics/{name}/diff", {"from_seq": 9, "wait_ms": 30_000})["tombstone"]
    assert impatient.call("POST", "/v0/topics/not-there/diff", {"wait_ms": 30_000}).status == 404


def test_the_time_is_up(api: Api, name: str) -> None:
    api.append(name, 1)
    answer = api.done("POST", f"/v0/topics/{name}/diff", {"from_seq": 1, "wait_ms": 300})
    assert (answer["records"], answer["next_from_seq"], answer["caught_up"]) == ([], 1, True)


def test_a_deleted_topic_ends_it(api: Api, name: str) -> None:
    api.append(name, 1)
    got: list = []
    asked = {"from_seq": 1, "wait_ms": 30_000}
    poll = threading.Thread(target=lambda: got.append(api.call("POST", f"/v0/topics/{name}/diff", asked)))
    poll.start()
    api.done("DELETE", f"/v0/topics/{name}")
    poll.join(DEADLINE)
    assert got[0].status == 404
