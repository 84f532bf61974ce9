"""GET /v0/schema and /v0/docs. The API follows its schema for any request."""

import inspect
import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import openapi_spec_validator
import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS as CHECKS_BY_NAME
from schemathesis.checks import load_all_checks

from base import errors
from contract.config import DEFAULTS
from routers.routers import DEFAULTS as ROUTER_DEFAULTS
from tests.api.clients import ApiClient, HttpClient
from tests.api.endpoints import STREAMS, endpoints
from tests.deadlines import DEADLINE
from tests.examples import examples
from tests.groups.member import session_of
from tests.instances import ROOT, Instance

pytestmark = pytest.mark.deep(90)


load_all_checks()
ROUTER = {"filter": None, "paused": False, **ROUTER_DEFAULTS}


@pytest.fixture(scope="module")
def document(server: Instance) -> Any:
    return HttpClient(server.port).get("/v0/schema").json


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_it_works(api: ApiClient) -> None:
    reply = api.get("/v0/schema")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json["openapi"].startswith("3.")


def test_it_is_openapi(document: Any) -> None:
    openapi_spec_validator.validate(document)


def test_every_endpoint_is_described(document: Any) -> None:
    described = {
        (method, re.sub(r"\{(\w+)\}", r"<\1>", path).removeprefix("/v0/")) for method, path, _ in operations(document)
    }
    assert endpoints() | set(STREAMS) == described | {("GET", "schema"), ("GET", "docs")}


def test_everything_has_a_sentence(document: Any) -> None:
    """Every call, parameter, status, shape and field. What only refers to a shape has the shape's."""
    said = {f"tag {tag['name']}": tag for tag in document["tags"]}
    for method, path, operation in operations(document):
        said[f"{method} {path}"] = operation
        said |= {f"{method} {path} {each['name']}": each for each in operation["parameters"]}
        said |= {f"{method} {path} {status}": each for status, each in operation["responses"].items()}
    for name, shape in document["components"]["schemas"].items():
        if "properties" not in shape:
            continue  # of a field, which has the sentence
        if "Answer" not in name:  # of a call, which says what it answers
            said[name] = shape
        said |= {f"{name}.{field}": each for field, each in shape["properties"].items() if "$ref" not in each}
    assert [what for what, each in said.items() if not re.fullmatch(r"(?s).*\w.*\.", each.get("description", ""))] == []
    assert document["info"]["description"]
    assert all(operation["summary"] for _, _, operation in operations(document))


def test_a_field_that_is_kept_says_its_default(document: Any) -> None:
    """A client that sent it with each change would undo what others set, so that it stands in the sentence alone."""
    for shape, stored in (("Config", DEFAULTS), ("RouterConfig", ROUTER)):
        for name, field in document["components"]["schemas"][shape]["properties"].items():
            if name in stored:
                assert "default" not in field
                default = json.dumps(stored[name])
                assert f"`{default}` for a new" in field["description"], f"{shape}.{name}: {default}"


def test_a_refusal_has_the_codes_of_its_status(document: Any) -> None:
    kinds = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.TopicsError)]
    codes: dict[int, set[str]] = {}
    for each in kinds:
        codes.setdefault(each.status, set()).add(each.code)
    schemas = document["components"]["schemas"]
    assert set(schemas["Code"]["enum"]) == set().union(*codes.values())
    assert schemas["Problem"]["properties"]["code"]["$ref"].endswith("/Code")
    for _, _, operation in operations(document):
        for status, answer in operation["responses"].items():
            if status >= "400":
                assert answer["content"]["application/json"]["schema"]["$ref"].endswith("/Error")
                assert set(re.findall(r"^- `(\w+)`", answer["description"], re.MULTILINE)) <= codes[int(status)]


def test_a_call_names_the_refusals_that_it_may_get(document: Any) -> None:
    """And no others of a status. That it names them all, each refusal that a test gets tells (clients.py)."""
    named = {
        (operation["operationId"], int(status)): re.findall(r"^- `(\w+)`", answer["description"], re.MULTILINE)
        for _, _, operation in operations(document)
        for status, answer in operation["responses"].items()
    }
    assert named["put_topic", 409] == ["topic_exists_incompatible", "dead_letter_cycle"]
    assert named["append", 409] == ["head_mismatch", "dead_letter_cycle", "topic_sealed", "topic_not_sealed"]
    assert named["get_router", 404] == ["router_not_found", "not_found"]
    assert ("list_topics", 404) not in named
    assert ("read", 409) not in named


def test_every_answer_and_body_has_a_shape(document: Any) -> None:
    for method, path, operation in operations(document):
        where = f"{method} {path}"
        assert {"400", "401", "403", "500", "503"} <= set(operation["responses"]), where
        for answer in operation["responses"].values():
            assert all(each["schema"] for each in answer["content"].values()), where
        if method in ("PUT", "POST"):
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert schema["$ref"], where  # for a schema within the call, generators make types without content
    for reference in re.findall(r"#/components/schemas/(\w+)", str(document)):
        assert reference in document["components"]["schemas"]


def test_a_body_of_several_shapes_is_a_component(document: Any) -> None:
    shapes = document["components"]["schemas"]["AppendRequest"]["oneOf"]
    assert [each["$ref"].rpartition("/")[2] for each in shapes] == ["Append", "Copy"]


def test_bounds_are_inclusive(document: Any) -> None:
    """OpenAPI 3.0 has booleans where 3.1 has the bounds, and generators read the one as the other."""
    assert "exclusiveM" not in json.dumps(document)
    assert document["components"]["schemas"]["ShareCommit"]["properties"]["share"]["maximum"] == 1023


def test_it_says_where_and_under_which_license(document: Any) -> None:
    assert document["servers"] == [{"url": "/"}]
    license = document["info"]["license"]
    assert (ROOT / "LICENSE").read_text().startswith(license["name"])
    assert f'license = "{license["identifier"]}"' in (ROOT / "pyproject.toml").read_text()


def test_a_body_is_required_where_none_is_refused(document: Any, api: ApiClient, name: str) -> None:
    queue = f"{name}-jobs"
    api.append(name, 1)
    api.put(f"/v0/topics/{queue}", {"type": "queue"})
    for method, path, operation in operations(document):
        if "requestBody" in operation:
            topic = (
                queue if "queues" in operation["tags"] else name
            )  # a log refuses the calls of queues before their bodies
            reply = api.call(method, re.sub(r"\{\w+\}", topic, path))
            assert (reply.status == 400) == operation["requestBody"]["required"], f"{method} {path}: {reply.body!r}"


def test_each_example_works_as_it_stands(document: Any, live: HttpClient) -> None:
    for topic in ("example-orders", "example-audit"):
        # Another test may have used the name. The examples name seq 1, so the numbering must start again, too.
        assert live.put(f"/v0/topics/{topic}", {"sealed": True}).status in (200, 201)
        assert live.delete(f"/v0/topics/{topic}?if_sealed=true&keep_head=false").status == 200
    assert live.put("/v0/topics/example-jobs", {"type": "queue"}).status in (200, 201)  # as the page tells its reader
    assert live.put("/v0/topics/example-copy", {"sealed": True}).status in (200, 201)
    wid, order, session = "", list(document["tags"]), 0
    tags = [tag["name"] for tag in order]
    for method, path, operation in sorted(operations(document), key=lambda each: tags.index(each[2]["tags"][0])):
        if "text/event-stream" in operation["responses"]["200"]["content"]:
            continue
        where, body = example(path, operation)
        if operation["tags"] == ["groups"]:  # its stream creates the group, and gives the session
            session = session or session_of(live.port, "example-orders", "billing")
            body = body and {**body, "session": session}
        reply = live.call(method, where, body)
        assert reply.status in (200, 201), f"{method} {path}: {reply.body!r}"
        wid = wid or reply.json.get("wid", "") if path == "/v0/watch" else wid
    for path in (f"/v0/watch/{wid}", "/v0/topics/example-orders/events"):
        with urllib.request.urlopen(f"http://127.0.0.1:{live.port}{path}", timeout=DEADLINE) as stream:
            assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
            assert stream.readline()


def example(path: str, operation: Any) -> tuple[str, Any]:
    """The path and the body of an operation's example."""
    given = {each["name"]: str(each["example"]) for each in operation["parameters"] if each["in"] == "path"}
    query = {
        each["name"]: each["example"] for each in operation["parameters"] if each["in"] == "query" and "example" in each
    }
    body = operation.get("requestBody")
    return f"{path.format(**given)}?{urlencode(query)}", body["content"]["application/json"][
        "example"
    ] if body else None


def test_the_docs_try_it_without_other_hosts(live: ApiClient) -> None:
    page = live.get("/v0/docs", accept="text/html")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    html = page.body.decode()
    assert re.findall(r"https?://[^\"' ]+", html) == []
    files = re.findall(r"(?:src|href)=\"([^\"]+)\"", html)
    assert len(files) >= 3
    contents = [live.get(file) for file in files]
    assert [each.status for each in contents] == [200] * len(files)
    assert any(b'url: "/v0/schema"' in each.body for each in contents)


def without_examples(part: Any) -> Any:
    """The same without the names that other tests use as they stand: what is made up here would change what they find."""
    match part:
        case dict():
            return {name: without_examples(each) for name, each in part.items() if name != "example"}
        case list():
            return [without_examples(each) for each in part]
    return part


CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
def test_whatever_is_sent_gets_an_answer_of_the_schema(server: Instance, document: Any, mode: GenerationMode) -> None:
    checks = [CHECKS_BY_NAME.get_one(name) for name in CHECKS]
    for found in schemathesis.openapi.from_dict(without_examples(document)).get_all_operations():
        operation = found.ok()
        if "{wid}" in operation.path or operation.path.endswith("/events"):
            continue  # a stream does not end
        parts = (operation.body, operation.query, operation.path_parameters)
        if mode is GenerationMode.NEGATIVE and not any(len(part) for part in parts):
            continue  # nothing is asked, so that nothing can be wrong

        @settings(max_examples=examples(4), derandomize=True, database=None)
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: schemathesis.Case) -> None:
            case.validate_response(case.call(base_url=server.url), checks=checks)

        send()
