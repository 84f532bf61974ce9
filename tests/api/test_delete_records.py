"""POST /v0/topics/:topic/delete."""

from typing import Any

import pytest

from tests.api.clients import ApiClient


@pytest.fixture
def tagged(api: ApiClient, name: str) -> str:
    """Six records, tagged x1, y1, x2, y2, x3, y3."""
    tags = [f"{letter}{n}" for n in (1, 2, 3) for letter in "xy"]
    api.post(f"/v0/topics/{name}", {"records": [{"data": 1, "tag": tag} for tag in tags]})
    return name


def left(api: ApiClient, name: str) -> list[int]:
    return [record["$seq"] for record in api.diff(name).json["records"]]


def test_it_works(api: ApiClient, tagged: str) -> None:
    reply = api.post(f"/v0/topics/{tagged}/delete", {"before_seq": 3})
    assert reply.status == 200
    answer = reply.json
    assert answer.pop("performance")["server_total_ms"] > 0
    assert answer == {"topic": tagged, "deleted": 2, "earliest_seq": 3, "head_seq": 6, "count": 4, "bytes": 4}
    assert left(api, tagged) == [3, 4, 5, 6]
    assert api.diff(tagged).json["tombstone"] is None


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ({"match": "x2"}, [1, 2, 4, 5, 6]),
        ({"match": ["tag", "Eq", "x2"]}, [1, 2, 4, 5, 6]),
        ({"match": ["tag", "Glob", "x*"]}, [2, 4, 6]),
        ({"match": ["tag", "Glob", "*"]}, []),
        ({"match": "x*"}, [1, 2, 3, 4, 5, 6]),
        ({"match": ["tag", "Glob", "x*"], "before_seq": 5}, [2, 4, 5, 6]),
        ({"before_seq": 0}, [1, 2, 3, 4, 5, 6]),
        ({"before_seq": 1}, [1, 2, 3, 4, 5, 6]),
        ({"before_seq": 2**63 - 1}, []),
        ({"match": "none"}, [1, 2, 3, 4, 5, 6]),
        ({"seqs": [2]}, [1, 3, 4, 5, 6]),
        ({"seqs": [6, 2, 2, 99, 0, 1]}, [3, 4, 5]),
        ({"seqs": list(range(1, 5001))}, []),
        ({"seqs": [2**63 - 1]}, [1, 2, 3, 4, 5, 6]),
        ({"seqs": []}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_what_matches_goes_and_nothing_else(api: ApiClient, tagged: str, body: dict[str, Any], kept: list[int]) -> None:
    answer = api.post(f"/v0/topics/{tagged}/delete", body).json
    assert (answer["deleted"], answer["count"]) == (6 - len(kept), len(kept))
    assert answer["earliest_seq"] == (kept[0] if kept else 7)
    assert left(api, tagged) == kept


def test_seqs_that_came_through_a_router_go_here_alone(api: ApiClient, name: str) -> None:
    """Some of them within one span, and one of the topic's own."""
    tagged, dest = name, f"{name}-d"
    api.put(f"/v0/routers/{tagged}-r", {"source": tagged, "dest": dest})
    api.append(tagged, *range(6))
    assert left(api, dest) == [1, 2, 3, 4, 5, 6]
    api.append(dest, 7)
    answer = api.post(f"/v0/topics/{dest}/delete", {"seqs": [7, 5, 2, 3, 2]}).json
    assert (answer["deleted"], answer["count"], answer["bytes"], answer["earliest_seq"]) == (4, 3, 3, 1)
    assert left(api, dest) == [1, 4, 6]
    assert api.post(f"/v0/topics/{dest}/delete", {"seqs": [1, 2]}).json["earliest_seq"] == 4
    assert left(api, tagged) == [1, 2, 3, 4, 5, 6]


@pytest.mark.guarantee("R7")
def test_what_comes_later_stays(api: ApiClient, tagged: str) -> None:
    api.post(f"/v0/topics/{tagged}/delete", {"before_seq": 100})
    assert api.append(tagged, "new").json["seqs"] == [7]
    assert left(api, tagged) == [7]


def test_twice_deletes_nothing_more(api: ApiClient, tagged: str) -> None:
    assert api.post(f"/v0/topics/{tagged}/delete", {"match": "x1"}).json["deleted"] == 1
    assert api.post(f"/v0/topics/{tagged}/delete", {"match": "x1"}).json["deleted"] == 0


def test_an_absent_topic_is_not_found(api: ApiClient, name: str) -> None:
    assert api.post(f"/v0/topics/{name}/delete", {"before_seq": 1}).code == "topic_not_found"
    assert api.post(f"/v0/topics/{name}/delete", {"match": "x"}).code == "topic_not_found"


REFUSED: list[Any] = [
    b"",
    b"{",
    b"[]",
    {},
    {"before_seq": None},
    {"before_seq": None, "match": None},
    {"before_seq": -1},
    {"before_seq": "1"},
    {"before_seq": 2**63},
    {"match": 1},
    {"match": []},
    {"match": ["tag", "Glob", "x"]},
    {"match": ["tag", "Glob", "x*y"]},
    {"match": ["tag", "Glob", "**"]},
    {"match": ["data", "Eq", "x"]},
    {"match": ["tag", "Regex", "x"]},
    {"match": "a\0"},
    {"seqs": None},
    {"seqs": 1},
    {"seqs": [-1]},
    {"seqs": [2**63]},
    {"seqs": ["1"]},
    {"seqs": list(range(1, 5002))},
    {"seqs": [1], "before_seq": 2},
    {"seqs": [1], "match": "x1"},
]


@pytest.mark.parametrize("body", REFUSED, ids=str)
def test_what_makes_no_sense_is_refused(api: ApiClient, tagged: str, body: Any) -> None:
    refused = api.post(f"/v0/topics/{tagged}/delete", body)
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert left(api, tagged) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("bad", ["-a", "a%00b", "a%ff"])
def test_a_bad_name_is_refused(api: ApiClient, bad: str) -> None:
    assert api.post(f"/v0/topics/{bad}/delete", {"before_seq": 1}).code == "invalid_request"


def test_another_media_type_is_refused(api: ApiClient, tagged: str) -> None:
    refused = api.post(f"/v0/topics/{tagged}/delete", b'{"before_seq":9}', content_type="text/plain")
    assert refused.code == "unsupported_media_type"
    assert left(api, tagged) == [1, 2, 3, 4, 5, 6]
