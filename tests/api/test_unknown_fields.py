"""A field that nobody knows is refused wherever something is asked, and changes nothing: it may be what was to be kept."""

import re

import msgspec
import pytest

from base.errors import InvalidRequest
from tests.api.clients import ApiClient, HttpClient
from topics_project.urls import ROUTES
from wire.api import V0
from wire.endpoint import Endpoint
from wire.request.hints import nearest, unknown
from wire.request.parse import parse

ENDPOINTS = [each for each in ROUTES.endpoints if each.api is V0]
# As somebody meant something: the field that he wrote, and the one that there is.
MEANT = [
    ("POST", "/v0/topics/{}/delete", {"before_seq": 2, "matches": ["tag", "Eq", "x"]}, "matches", "match"),
    ("PUT", "/v0/topics/{}", {"cap_record": 1}, "cap_record", "cap_records"),
    ("PUT", "/v0/routers/{}", {"source": "a", "dest": "b", "filters": ["tag", "Eq", "x"]}, "filters", "filter"),
    ("POST", "/v0/topics/{}", {"records": [{"data": 1, "tags": "x"}]}, "tags", "tag"),
    ("POST", "/v0/topics/{}", {"records": [{"data": 1}], "config": {"ttl": 5}}, "ttl", "ttl_ms"),
    ("POST", "/v0/topics/{}/diff", {"from": 1}, "from", "from_seq"),
    ("POST", "/v0/watch", {"topics": {"a": {"from": 1}}}, "from", "from_seq"),
    ("PUT", "/v0/topics/{}/cursors/c", {"at_seq": 1}, "at_seq", "seq"),
    ("GET", "/v0/topics/{}/records?from=0", None, "from", "from_seq"),
    ("DELETE", "/v0/topics/{}?if_emtpy=true", None, "if_emtpy", "if_empty"),
    ("GET", "/v0/topics?page=2", None, "page", "page_size"),
]


def path_of(endpoint: Endpoint, name: str) -> str:
    return "/" + endpoint.path.replace("<str:seq>", "1").replace("<str:topic>", name).replace(
        "<str:cursor>", "c"
    ).replace("<str:router>", "r")


@pytest.mark.parametrize(("method", "path", "body", "field", "meant"), MEANT)
def test_what_was_meant_is_told(
    api: ApiClient, name: str, method: str, path: str, body: object, field: str, meant: str
) -> None:
    api.append(name, 1, 2)
    refused = api.call(method, path.format(name), body)
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert refused.detail == {"field": field, "nearest": meant}
    assert repr(field) in refused.json["error"]["message"]
    assert repr(meant) in refused.json["error"]["message"]
    found = api.get(f"/v0/topics/{name}").json
    assert (found["count"], found["config"]["cap_records"]) == (2, 0)


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "known"),
    [
        ("POST", "/v0/topics/{}", {"records": [{"data": 1}], "x": 1}, "x", "expected_head"),
        ("PUT", "/v0/topics/{}", {"retention_ms": 1}, "retention_ms", "ttl_ms"),
    ],
)
def test_a_field_like_no_other_is_told_all(
    api: ApiClient, name: str, method: str, path: str, body: object, field: str, known: str
) -> None:
    refused = api.call(method, path.format(name), body)
    assert refused.detail.keys() == {"field", "allowed"}
    assert known in refused.detail["allowed"]
    assert refused.json["error"]["message"].startswith(f"unknown field '{field}' in the body. Known fields: ")


@pytest.mark.parametrize("word", ["x", "id", "schema", "wait", "data"])
def test_a_suggestion_has_more_than_two_letters_in_common(word: str) -> None:
    shapes = [shape for each in ENDPOINTS for shape in (each.query, *(each.bodies() if each.body else ())) if shape]
    for shape in shapes:
        known = [field.encode_name for field in msgspec.structs.fields(shape)]
        if word not in known and known:
            near = unknown(word, known, "body").detail.get("nearest", word)
            assert near.startswith(word), (shape, near)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"records": [{"data": 1}, {"data": 1, "tag": 5}]}, "records[1].tag"),
        ({"records": 7}, "records"),
        ({"records": [{"data": 1}], "config": {"discard": "new"}}, "config.discard"),
        ({"records": [{"data": 1}], "expected_head": -1}, "expected_head"),
    ],
)
def test_an_error_of_type_names_its_field(api: ApiClient, name: str, body: object, field: str) -> None:
    refused = api.post(f"/v0/topics/{name}", body)
    assert (refused.status, refused.detail["field"]) == (400, field)
    in_query = api.get(f"/v0/topics/{name}/records?from_seq=x")
    assert (in_query.status, in_query.detail["field"]) == (400, "from_seq")


def test_it_is_told_where(api: ApiClient, name: str) -> None:
    refused = api.post(f"/v0/topics/{name}", {"records": [{"data": 1}, {"data": 2, "nod": "n"}]})
    assert refused.json["error"]["message"] == "unknown field 'nod' in the body at records[1]: did you mean 'node'?"
    assert api.get(f"/v0/topics/{name}").status == 404


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.id)
def test_no_endpoint_takes_a_query_or_a_body_that_it_does_not_know(
    api: ApiClient, name: str, endpoint: Endpoint
) -> None:
    for path, body in ((f"{path_of(endpoint, name)}?nonsense=1", None), (path_of(endpoint, name), {"nonsense": 1})):
        if endpoint.id in ("get_health", "get_ready") and body and isinstance(api, HttpClient):
            continue  # a probe is answered before anybody looks at a body
        refused = api.call(endpoint.method, path, body)
        assert (refused.status, refused.code, refused.detail["field"]) == (400, "invalid_request", "nonsense"), path


@pytest.mark.parametrize("path", ["/v0/schema", "/v0/docs"])
def test_neither_do_the_pages(api: ApiClient, path: str) -> None:
    refused = api.get(f"{path}?nonsense=1", accept="*/*")
    assert (refused.status, refused.code, refused.detail["field"]) == (400, "invalid_request", "nonsense")


def test_neither_do_the_streams(live: ApiClient, name: str) -> None:
    live.append(name, 1)
    stream = live.post("/v0/watch", {"topics": {name: {}}}).json["stream_url"]
    for path in (stream, f"/v0/topics/{name}/events"):
        refused = live.get(f"{path}?lastEvent=1", accept="text/event-stream")
        assert (refused.status, refused.code, refused.detail["field"]) == (400, "invalid_request", "lastEvent")
        refused = live.call("GET", path, {"from_seq": 1}, accept="text/event-stream")
        assert (refused.status, refused.code, refused.detail["field"]) == (400, "invalid_request", "from_seq")


@pytest.mark.parametrize("endpoint", [each for each in ENDPOINTS if each.body], ids=lambda endpoint: endpoint.id)
def test_a_letter_too_many_is_understood(endpoint: Endpoint) -> None:
    known = [field.encode_name for field in msgspec.structs.fields(endpoint.body)]
    assert [nearest(f"{field}x", known) for field in known] == known
    assert [nearest(re.sub("_", "", field).upper(), known) for field in known] == known


@pytest.mark.parametrize("endpoint", [each for each in ENDPOINTS if each.body], ids=lambda endpoint: endpoint.id)
def test_a_shape_is_described_for_its_first_refusal_alone(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A description takes a millisecond of the event loop, and a client can send many requests that are refused."""
    for body in (b'{"nobody knows": 1}', b'{"nobody knows": 2}'):
        with pytest.raises(InvalidRequest):
            parse(body, endpoint.body)
        monkeypatch.setattr(msgspec.inspect, "multi_type_info", None)


def test_a_client_that_one_cannot_change_is_served(instances) -> None:
    """TOPICS_STRICT=0, by the event loop and by the views (which negotiate). What deletes is as strict as ever."""
    live = HttpClient(instances(TOPICS_STRICT="0").port)
    for accept in ("*/*", "application/json;q=0.9"):
        name = f"t{len(accept)}"
        assert (
            live.post(f"/v0/topics/{name}?x=1", {"records": [{"data": 1, "x": 1}], "x": 1}, accept=accept).status == 201
        )
        assert live.put(f"/v0/topics/{name}", {"x": 1}, accept=accept).status == 200
        assert live.get(f"/v0/topics/{name}/records?x=1&from_seq=0", accept=accept).json["lag"] == 0
        assert live.put("/v0/routers/r", {"source": "a", "dest": "b", "x": 1}, accept=accept).status in (200, 201)
        assert live.call("GET", f"/v0/topics/{name}?x=1", {"x": 1}, accept=accept).status == 200
        for method, path, body in (
            ("POST", f"/v0/topics/{name}/delete", {"before_seq": 2, "x": 1}),
            ("POST", f"/v0/topics/{name}/delete?x=1", {"before_seq": 2}),
            ("DELETE", f"/v0/topics/{name}?x=1", None),
            ("DELETE", f"/v0/topics/{name}", {"x": 1}),
            ("DELETE", "/v0/routers/r?x=1", None),
            ("DELETE", f"/v0/topics/{name}/cursors/c?x=1", None),
        ):
            assert live.call(method, path, body, accept=accept).code == "invalid_request", (method, path)
        assert live.get(f"/v0/topics/{name}", accept=accept).json["count"] == 1
