"""DELETE /v0/topics/:topic."""

import pytest

from tests.api.clients import ApiClient


def test_it_works(api: ApiClient, name: str) -> None:
    api.append(name, 1)
    reply = api.delete(f"/v0/topics/{name}")
    assert reply.status == 200
    answer = reply.json
    assert answer.pop("performance")["server_total_ms"] > 0
    assert answer == {"topic": name, "deleted": True, "routers_removed": []}
    assert api.get(f"/v0/topics/{name}").code == "topic_not_found"


def test_an_absent_topic_is_no_error(api: ApiClient, name: str) -> None:
    reply = api.delete(f"/v0/topics/{name}")
    assert (reply.status, reply.json["deleted"], reply.json["routers_removed"]) == (200, False, [])


def test_only_an_empty_one_when_asked_so(api: ApiClient, name: str) -> None:
    api.append(name, 1)
    refused = api.delete(f"/v0/topics/{name}?if_empty=true")
    assert (refused.status, refused.code) == (409, "topic_not_empty")
    assert api.get(f"/v0/topics/{name}").json["count"] == 1
    api.post(f"/v0/topics/{name}/delete", {"before_seq": 2})
    assert api.delete(f"/v0/topics/{name}?if_empty=true").json["deleted"] is True


def test_it_takes_the_routers_that_name_it(api: ApiClient, name: str) -> None:
    api.put(f"/v0/routers/{name}-in", {"source": f"{name}-a", "dest": name})
    api.put(f"/v0/routers/{name}-out", {"source": name, "dest": f"{name}-b"})
    api.put(f"/v0/routers/{name}-past", {"source": f"{name}-a", "dest": f"{name}-c"})
    assert api.delete(f"/v0/topics/{name}").json["routers_removed"] == [f"{name}-in", f"{name}-out"]
    assert api.get(f"/v0/routers/{name}-in").status == 404
    assert api.get(f"/v0/routers/{name}-past").status == 200


def test_the_next_of_that_name_continues_its_numbers(api: ApiClient, name: str) -> None:
    api.append(name, 1, 2, 3)
    api.put(f"/v0/topics/{name}/cursors/c", {"at": "head"})
    api.delete(f"/v0/topics/{name}")
    assert api.append(name, 1).json["seqs"] == [4]
    assert api.get(f"/v0/topics/{name}/cursors/c").status == 404


@pytest.mark.parametrize("query", ["if_empty=maybe", "if_empty=", "if_empty=%ff"])
def test_an_unknown_query_value_is_refused(api: ApiClient, name: str, query: str) -> None:
    api.put(f"/v0/topics/{name}")
    assert api.delete(f"/v0/topics/{name}?{query}").code == "invalid_request"
    assert api.get(f"/v0/topics/{name}").status == 200


@pytest.mark.parametrize("bad", ["-a", "a%20b", "a%00b", "a%ff", "a" * 256])
def test_a_bad_name_is_refused(api: ApiClient, bad: str) -> None:
    refused = api.delete(f"/v0/topics/{bad}")
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_only_a_sealed_one_is_deleted_where_that_is_said(api: ApiClient, name: str) -> None:
    path = f"/v0/topics/{name}"
    api.append(name, 1)
    refused = api.call("DELETE", f"{path}?if_sealed=true")
    assert (refused.status, refused.code) == (409, "topic_not_sealed")
    assert api.get(path).json["count"] == 1
    api.put(path, {"sealed": True})
    assert api.call("DELETE", f"{path}?if_sealed=true").json["deleted"] is True
    assert api.call("DELETE", f"{path}?if_sealed=true").json["deleted"] is False


@pytest.mark.parametrize(("query", "first"), [("", 4), ("?keep_head=false", 1)])
def test_the_numbering_ends_with_it_where_that_is_said(api: ApiClient, name: str, query: str, first: int) -> None:
    api.append(name, 1, 2, 3)
    assert api.call("DELETE", f"/v0/topics/{name}{query}").json["deleted"] is True
    assert api.append(name, 1).json["first_seq"] == first
