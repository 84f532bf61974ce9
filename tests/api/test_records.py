"""GET /v0/topics/:topic/records, which answers as a diff does."""

from urllib.parse import quote

import pytest

from tests.api.clients import ApiClient


@pytest.fixture
def topic(api: ApiClient, name: str) -> str:
    records = [{"data": n, "tag": f"t{n % 2}", "node": "ab"[n % 2], "meta": {"n": n}} for n in range(5)]
    api.post(f"/v0/topics/{name}", {"records": records})
    return name


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", {}),
        ("from_seq=2", {"from_seq": 2}),
        ("limit=2", {"limit": 2}),
        ("limit=1&match=t1", {"limit": 1, "match": "t1", "window": "matches"}),
        ("limit=2&node=a", {"limit": 2, "node": "a", "window": "matches"}),
        ("tail=2", {"tail": 2}),
        ("order=desc&limit=2&from_seq=4", {"order": "desc", "limit": 2, "from_seq": 4}),
        ("limit=100000", {"limit": 100_000}),
        ("node=a", {"node": "a"}),
        ("node=a&node=b", {"node": ["a", "b"]}),
        ("match=t1", {"match": "t1"}),
        ("match=" + quote('["tag","Glob","t*"]'), {"match": ["tag", "Glob", "t*"]}),
        ("include_tags=true", {"include_tags": True}),
        ("include_tags=false&include_meta=false", {"include_meta": False}),
        ("from_ts=0", {"from_ts": 0}),
        ("from_seq=5&wait_ms=1", {"from_seq": 5, "wait_ms": 1}),
    ],
)
def test_it_answers_as_a_diff_does(api: ApiClient, topic: str, query: str, body: dict) -> None:
    got, diffed = api.get(f"/v0/topics/{topic}/records?{query}"), api.diff(topic, **body)
    assert (got.status, diffed.status) == (200, 200)
    mine, theirs = got.json, diffed.json
    assert mine.pop("performance").keys() == theirs.pop("performance").keys()
    assert mine == theirs


@pytest.mark.parametrize(
    "query",
    [
        "from_seq=-1",
        "from_seq=x",
        "from_seq=",
        f"from_seq={2**63}",
        "from_seq=1&from_ts=1",
        "from_ts=-1",
        "limit=0",
        "limit=many",
        "wait_ms=-1",
        "include_tags=2",
        "include_meta=maybe",
        "node=%00",
        "node=%ff",
        "node=" + "x" * 129,
        "node=a&node=" + "x" * 129,
        "match=%00",
        "match=t*",
        "window=seqs",
        "match=[",
        "match=" + quote('["tag","Glob","t"]'),
        "match=" + quote('["tag","Eq"]'),
    ],
)
def test_a_bad_query_is_refused(api: ApiClient, topic: str, query: str) -> None:
    refused = api.get(f"/v0/topics/{topic}/records?{query}")
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_an_absent_topic_is_not_found(api: ApiClient, name: str) -> None:
    assert api.get(f"/v0/topics/{name}/records").code == "topic_not_found"
    assert api.get(f"/v0/topics/{name}/records?from_ts=1").code == "topic_not_found"


def test_a_bad_name_is_refused(api: ApiClient) -> None:
    assert api.get("/v0/topics/-a/records").code == "invalid_request"
