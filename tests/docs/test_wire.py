"""docs/wire.md and docs/errors.md against the code: every endpoint, field, default and error."""

from __future__ import annotations

import inspect
import re
from typing import Any, get_args

import msgspec
import pytest

from base import errors
from routers.routers import DEFAULTS as ROUTER_DEFAULTS
from tests.instances import ROOT
from topics.config import TOPIC
from topics_project.urls import ROUTES
from watch.sessions import Start
from wire.api import V0
from wire.endpoint import Endpoint
from wire.paging import PageQuery

PAGE = (ROOT / "docs" / "wire.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)}
ENDPOINTS = {
    f"{method} {path}": endpoint for path, found in ROUTES for method, endpoint in found.items() if endpoint.api is V0
}
TABLE = re.compile(r"^\| (?:field|query) \|.*\n(?:\|.*\n)+", re.MULTILINE)
ROW = re.compile(r"^\| ((?:`[\w.*\[\]]+`(?:, )?)+) \| [^|]+ \| (?:`([^|]*)` )?\|", re.MULTILINE)
# Defaults that a body leaves to the row it makes: what is not said there is UNSET.
STORED = {"put_topic": TOPIC, "put_router": {"filter": None, "paused": False, **ROUTER_DEFAULTS}}
NESTED = {"watch": {"topics.*.": Start}}
SHARED = {"list_records": "read"}  # whose fields are those of the other


def title(endpoint: Endpoint) -> str:
    return f"{endpoint.method} /" + re.sub(r"<str:(\w+)>", r":\1", endpoint.path)


def rows(text: str) -> dict[str, str | None]:
    """The fields that a section's tables name, each with its default (None: it has none)."""
    found = ROW.findall("".join(TABLE.findall(text)))
    return {name: default or None for names, default in found for name in re.findall(r"`(.+?)`", names)}


def told(endpoint: Endpoint) -> str:
    """The part of the page that an endpoint stands in, and what holds everywhere."""
    parts = PAGE.split("\n## ")
    return parts[1] + next(part for part in parts if f"### {title(endpoint)}\n" in part)


def fields(shape: Any) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(shape)} if shape else {}


def expected(endpoint: Endpoint) -> dict[str, str | None]:
    """The fields of a body and a query, with the defaults as JSON."""
    stored = STORED.get(endpoint.id, {})
    query = fields(endpoint.query)
    if endpoint.query and issubclass(endpoint.query, PageQuery):
        query = {name: field for name, field in query.items() if name not in PageQuery.__struct_fields__}
    wanted = {**fields(endpoint.body), **query}
    for prefix, shape in NESTED.get(endpoint.id, {}).items():
        wanted |= {f"{prefix}{name}": field for name, field in fields(shape).items()}
    if endpoint.id == "append":
        (record,) = get_args(wanted["records"].type)
        wanted |= {f"records[].{name}": field for name, field in fields(record).items()}
    return {name: default_of(name, field, stored) for name, field in wanted.items()}


def default_of(name: str, field: msgspec.structs.FieldInfo, stored: dict[str, Any]) -> str | None:
    if name in stored:
        return msgspec.json.encode(stored[name]).decode()
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.json.encode(field.default_factory()).decode()
    if field.default in (msgspec.NODEFAULT, msgspec.UNSET):
        return None
    return msgspec.json.encode(field.default).decode()


@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=lambda endpoint: endpoint.id)
def test_an_endpoint_is_described(endpoint: Endpoint) -> None:
    text = SECTIONS[title(endpoint)]
    assert f"Scope {f'`{endpoint.scope}`' if endpoint.scope else 'none'}" in text
    if endpoint.id in SHARED:
        other = next(each for each in ENDPOINTS.values() if each.id == SHARED[endpoint.id])
        given = {name: value for name, value in expected(endpoint).items() if name != "node"}
        assert given == {name: value for name, value in expected(other).items() if name not in ("node", "window")}
    else:
        assert rows(text) == expected(endpoint)
    for shape in endpoint.shapes():
        assert untold(shape, told(endpoint)) == []


def untold(shape: Any, text: str) -> list[str]:
    return [name for name in fields(shape) if name != "performance" and f"`{name}`" not in text]


def test_no_endpoint_is_described_that_is_not_there() -> None:
    described = {name for name in SECTIONS if re.match(r"(GET|PUT|POST|DELETE) /", name)}
    streams = {
        "GET /v0/watch/:wid",
        "GET /v0/topics/:topic/events",
        "GET /v0/topics/:topic/groups/:group/stream",
        "GET /v0/topics/:topic/work",
        "GET /v0/schema, GET /v0/docs",
    }
    assert described == {title(each) for each in ENDPOINTS.values()} | streams


def test_every_error_is_in_the_table() -> None:
    classes = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.TopicsError)]
    page = (ROOT / "docs" / "errors.md").read_text()
    table = set(re.findall(r"^\| (\d{3}) \| `(\w+)` \|", page, re.MULTILINE))
    assert table == {(str(each.status), each.code) for each in classes}
