"""The calls of a server, as server and gateway know them."""

import pytest

from base.errors import NotFound
from contract.operations import Operation, called
from gateway.api import Request
from topics_project.urls import ROUTES, STREAMS

OF_NO_HANDLER = {  # pages of Django, a call of the gateway, and requests that are no call
    Operation.SCHEMA,
    Operation.DOCS,
    Operation.LIST_NODES,
    Operation.OPTIONS,
    Operation.UPGRADE,
    Operation.OTHER,
}


def test_a_server_serves_every_call() -> None:
    served = {each.operation for each in (*ROUTES.endpoints, *STREAMS)}
    assert served == set(Operation) - OF_NO_HANDLER


@pytest.mark.parametrize("operation", Operation, ids=lambda operation: operation.value)
def test_every_path_leads_to_its_call(operation: Operation) -> None:
    for method, path in operation.paths:
        found = called(method, path.replace("{topic}", "t"))
        assert (found.operation, found.topic) == (operation, "t" if "{topic}" in path else None)


@pytest.mark.parametrize(
    ("method", "path", "operation", "topic"),
    [
        ("HEAD", "/v0/topics/a", Operation.GET_TOPIC, "a"),
        ("PATCH", "/v0/topics/a", Operation.OTHER, "a"),
        ("POST", "/v0/topics/a%3Ab", Operation.APPEND, "a:b"),
        ("OPTIONS", "/v0/topics/a", Operation.OPTIONS, "a"),
        ("OPTIONS", "/admin/", Operation.OTHER, None),
        ("GET", "/%76%30/%74opics/%61/records", Operation.LIST_RECORDS, "a"),
        ("GET", "/v0/%6Detrics", Operation.GET_METRICS, None),
        ("POST", "/v0/topics/a%2Fdelete", Operation.OTHER, None),
        ("GET", "/v0%2Ftopics%2Fa/records", Operation.OTHER, None),
        ("POST", "/v0/topics//diff", Operation.OTHER, None),
        ("POST", "/v0/topics/a/unknown", Operation.OTHER, None),
        ("GET", "/admin/", Operation.OTHER, None),
        ("GET", "/v0/topics/:topic", Operation.GET_TOPIC, ":topic"),
        ("GET", "/", Operation.OTHER, None),
    ],
)
def test_a_call_is_told_by_method_and_path(method: str, path: str, operation: Operation, topic: str | None) -> None:
    found = called(method, path)
    assert (found.operation, found.topic) == (operation, topic)


def test_a_request_with_changes_is_another_one() -> None:
    request = Request("POST", "/v0/topics/a/diff", "x=1", [(b"a", b"b")], b"{}")
    other = request.replace(topic="eu.a", query="")
    assert (other.path, other.topic, other.query, other.operation) == (
        "/v0/topics/eu.a/diff",
        "eu.a",
        "",
        Operation.READ,
    )
    assert (request.path, request.query) == ("/v0/topics/a/diff", "x=1")


@pytest.mark.parametrize(
    "path", ["/v0/topics/a/records", "/v0/topics/a:b", "/v0/routers/a%3Eb", "/v0/topics/%C3%A9%20%25"]
)
def test_a_path_that_is_right_goes_on_as_it_came(path: str) -> None:
    assert Request("GET", path).path == path


def test_an_encoded_word_of_a_path_is_that_word() -> None:
    request = Request("GET", "/%76%30/%74opics/%61/records")
    assert (request.path, request.topic) == ("/v0/topics/a/records", "a")
    assert request.replace(topic="eu.a").path == "/v0/topics/eu.a/records"


def test_an_encoded_slash_is_refused() -> None:
    with pytest.raises(NotFound, match="encoded slash"):
        Request("POST", "/v0/topics/a%2fdelete")
