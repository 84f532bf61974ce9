"""A gateway that renames topics changes each name in the shapes of the calls, and no other string."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from msgspec import inspect as kinds

from base.errors import RENDERED, TopicsError
from contract.operations import Operation
from gateway.api import Response
from gateway.rewrite.frames import Frame
from gateway.rewrite.names import BODIES, QUERIES, UNKNOWN, prefixed_at_server, rename_frame, renamed_response
from topics_project.urls import DESCRIBED
from wire.endpoint import Declaration

RENAMING = prefixed_at_server("acme.")
CALLS = [each for each in DESCRIBED.operations if each.operation not in UNKNOWN]  # the gateway refuses the others
ONE, PATTERN, KEYS = "one", "pattern", "keys"  # as in BODIES


class Sample:
    """Values of shapes. Each name is `acme.name1`, with a number of its own, and each other string `acme.other2`."""

    def __init__(self) -> None:
        self.count = 0

    def string(self, is_name: bool) -> str:
        self.count += 1
        return f"acme.{'name' if is_name else 'other'}{self.count}"

    def of(self, kind: kinds.Type) -> Any:
        match kind:
            case kinds.Metadata(type=kinds.StrType()):
                return self.string(named(kind) is not None)
            case kinds.Metadata(type=inner):
                return self.of(inner)
            case kinds.StrType():
                return self.string(False)
            case kinds.LiteralType(values=(first, *_)):
                return first
            case kinds.BoolType():
                return True
            case kinds.IntType() | kinds.FloatType():
                return 7
            case kinds.UnionType(types=types):
                return self.of(next(each for each in types if not isinstance(each, kinds.NoneType)))
            case kinds.StructType(fields=fields):
                return {each.encode_name: self.of(each.type) for each in fields}
            case kinds.ListType(item_type=inner):
                return [self.of(inner), self.of(inner)]
            case kinds.DictType(key_type=key, value_type=value):
                return {self.of(key): self.of(value) for _ in range(2)}
            case kinds.AnyType() | kinds.RawType():  # what a client has sent
                return {"topic": self.string(False), "routers": [self.string(False)], "queue": self.string(False)}
        raise TypeError(f"no sample of {kind}")


def named(kind: kinds.Type) -> str | None:
    """What a string names: `topic`, `router`, or `pattern` of queues."""
    return (kind.extra or {}).get("names") if isinstance(kind, kinds.Metadata) else None


def renamed(sample: Any) -> Any:
    return json.loads(json.dumps(sample).replace('"acme.name', '"name'))


def answers() -> list[Any]:
    found = [(each.operation, shape) for each in CALLS for shape in each.shapes()]
    return [pytest.param(*pair, id=f"{pair[0].value}-{pair[1].__name__}") for pair in dict.fromkeys(found)]


@pytest.mark.parametrize(("operation", "shape"), answers())
def test_an_answer_has_the_clients_names(operation: Operation, shape: type[msgspec.Struct]) -> None:
    sample = Sample().of(kinds.type_info(shape))
    changed = asyncio.run(renamed_response(operation, Response.json(200, sample), RENAMING))
    assert json.loads(asyncio.run(changed.read())) == renamed(sample)


def events() -> list[Any]:
    found = [(name, shape) for each in DESCRIBED.operations for name, shape in each.events.items()]
    return [pytest.param(*pair, id=f"{pair[0]}-{pair[1].__name__}") for pair in dict.fromkeys(found)]


@pytest.mark.parametrize(("event", "shape"), events())
def test_an_event_has_the_clients_names(event: str, shape: type[msgspec.Struct]) -> None:
    sample = Sample().of(kinds.type_info(shape))
    frame = Frame(b"event: %b\ndata: %b" % (event.encode(), msgspec.json.encode(sample)))
    rename_frame(frame, RENAMING.to_client)
    assert json.loads(frame.data or b"") == renamed(sample)


@pytest.mark.parametrize("error", RENDERED, ids=lambda error: error.__name__)
def test_an_error_has_the_clients_names(error: type[TopicsError]) -> None:
    detail = {name: [f"acme.{name}1", f"acme.{name}2"] if name == "cycle" else f"acme.{name}" for name in error.names}
    detail |= dict.fromkeys(error.plain, 5)
    sent, expected = error.of(**detail), json.loads(json.dumps(error.of(**detail).body()).replace("acme.", ""))
    changed = asyncio.run(renamed_response(Operation.PUT_ROUTER, Response.json(409, sent.body()), RENAMING))
    assert json.loads(asyncio.run(changed.read())) == expected


def places(kind: kinds.Type) -> Any:
    """Where a body names topics, in the form of BODIES. None: nowhere."""
    match kind:
        case kinds.Metadata(type=kinds.StrType()):
            return {"topic": ONE, "pattern": PATTERN}.get(named(kind) or "")
        case kinds.Metadata(type=inner):
            return places(inner)
        case kinds.UnionType(types=types):
            return next(filter(None, map(places, types)), None)
        case kinds.DictType(key_type=key) if named(key):
            return KEYS
        case kinds.StructType(fields=fields):
            return {each.encode_name: found for each in fields if (found := places(each.type))} or None
    return None


def of_body(call: Declaration) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for shape in call.bodies():
        found |= places(kinds.type_info(shape)) or {}
    return found


def test_the_gateway_knows_each_name_of_a_body_and_of_a_query() -> None:
    bodies = {each.operation: found for each in CALLS if (found := of_body(each))}
    assert bodies == {operation: shape for operation, shape in BODIES.items() if operation is not Operation.SUBSCRIBE}
    queries = {each.operation: tuple(places(kinds.type_info(each.query)) or ()) for each in CALLS if each.query}
    assert {operation: names for operation, names in queries.items() if names} == QUERIES
