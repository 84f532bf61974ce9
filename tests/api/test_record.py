"""GET /v0/topics/:topic/records/:seq."""

import time

import pytest

from tests.api.clients import ApiClient


def test_it_works(api: ApiClient, name: str) -> None:
    body = b'{"records":[{"data":1},{"data":{"b":1.0,"a":1e5},"tag":"t","node":"n","meta":{"m":1.0}}]}'
    api.post(f"/v0/topics/{name}", body)
    reply = api.get(f"/v0/topics/{name}/records/2")
    assert reply.status == 200
    answer = reply.json
    assert answer.pop("performance")["server_total_ms"] > 0
    assert abs(answer.pop("$ts") - time.time() * 1000) < 60_000
    path = {"topic": name, "seq": 2, "routers": []}
    assert answer == {
        "$seq": 2,
        "$node": "n",
        "$tag": "t",
        "meta": {"m": 1.0},
        "data": {"b": 1.0, "a": 1e5},
        "path": path,
    }
    assert b'"meta":{"m":1.0},"data":{"b":1.0,"a":1e5},"path"' in reply.body


def test_what_was_not_set_is_absent(api: ApiClient, name: str) -> None:
    api.append(name, None)
    assert set(api.get(f"/v0/topics/{name}/records/1").json) == {"$seq", "$ts", "data", "path", "performance"}


@pytest.mark.parametrize("seq", [2, 100, 2**63 - 1])
def test_what_was_never_there_is_not_found(api: ApiClient, name: str, seq: int) -> None:
    api.append(name, 1)
    refused = api.get(f"/v0/topics/{name}/records/{seq}")
    assert (refused.status, refused.code, refused.detail) == (404, "not_found", {"topic": name, "seq": seq})


def test_what_is_gone_is_not_found(api: ApiClient, name: str) -> None:
    api.post(f"/v0/topics/{name}", {"records": [{"data": n, "tag": str(n)} for n in range(1, 7)]})
    api.post(f"/v0/topics/{name}/delete", {"before_seq": 2})
    api.post(f"/v0/topics/{name}/delete", {"match": "4"})
    api.put(f"/v0/topics/{name}", {"cap_records": 3})
    found = [seq for seq in range(1, 8) if api.get(f"/v0/topics/{name}/records/{seq}").status == 200]
    assert found == [3, 5, 6]
    api.put(f"/v0/topics/{name}", {"ttl_ms": 1})
    time.sleep(0.01)  # over the ttl by any clock
    assert api.get(f"/v0/topics/{name}/records/6").code == "not_found"


def test_a_forwarded_record_tells_its_way(api: ApiClient, name: str) -> None:
    api.put(f"/v0/routers/{name}-1", {"source": f"{name}-a", "dest": f"{name}-b", "preserve_node": False})
    api.put(f"/v0/routers/{name}-2", {"source": f"{name}-b", "dest": f"{name}-c"})
    api.append(f"{name}-b", "own")
    api.append(f"{name}-a", "x", "y", node="n")
    assert api.diff(f"{name}-c").json["head_seq"] == 3
    answer = api.get(f"/v0/topics/{name}-c/records/3").json
    assert (answer["data"], "$node" in answer) == ("y", False)
    assert answer["path"] == {"topic": f"{name}-a", "seq": 2, "routers": [f"{name}-1", f"{name}-2"]}
    api.delete(f"/v0/topics/{name}-a")
    assert api.get(f"/v0/topics/{name}-c/records/3").json["path"]["topic"] == f"{name}-a"


def test_an_absent_topic_is_not_found(api: ApiClient, name: str) -> None:
    assert api.get(f"/v0/topics/{name}/records/1").code == "topic_not_found"


@pytest.mark.parametrize(
    "seq",
    ["0", "-1", "x", "1.0", "1e3", "%00", "%ff", "%D9%A1", str(2**63), "9" * 5000, f"{1:020}{0:05000}", " 1", "+1"],
)
def test_what_is_no_seq_is_refused(api: ApiClient, name: str, seq: str) -> None:
    api.append(name, 1)
    refused = api.get(f"/v0/topics/{name}/records/{seq.replace(' ', '%20')}")
    assert (refused.status, refused.code) == (400, "invalid_request")
