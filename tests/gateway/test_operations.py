"""The operations of a server, as the gateway knows them."""

import pytest

from gateway.api import Request
from gateway.operations import TABLE, Operation, place
from groups import api as groups
from queues.api import urls as queues
from topics_project.urls import ROUTES
from watch.api import streams


def test_every_call_of_a_server_is_known_by_its_id() -> None:
    calls = [(method, str(route), each.id) for route, found in ROUTES for method, each in found.items()]
    calls += [(each.method, each.path, each.id) for each in (*streams, *groups.streams, *queues.streams)]
    for method, route, name in calls:
        path = "/" + route.replace("<str:topic>", "t").replace("<str:", "").replace(">", "")
        found = place(method, path)
        assert found.operation is Operation(name), (method, path)
        assert found.topic == ("t" if "<str:topic>" in route else None)
    known = {name for _, _, name in calls} | {"schema", "docs", "upgrade", "other"}
    assert {each.value for each in Operation} == known
    assert set(TABLE) == known - {"upgrade", "other"}


@pytest.mark.parametrize(
    ("method", "path", "operation", "topic"),
    [
        ("HEAD", "/v0/topics/a", Operation.GET_TOPIC, "a"),
        ("PATCH", "/v0/topics/a", Operation.OTHER, "a"),
        ("POST", "/v0/topics/a%3Ab", Operation.APPEND, "a:b"),
        ("POST", "/v0/topics/a/unknown", Operation.OTHER, "a"),
        ("GET", "/admin/", Operation.OTHER, None),
        ("GET", "/v0/topics/:topic", Operation.GET_TOPIC, ":topic"),
        ("GET", "/", Operation.OTHER, None),
    ],
)
def test_a_call_is_told_by_method_and_path(method: str, path: str, operation: Operation, topic: str | None) -> None:
    found = place(method, path)
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
