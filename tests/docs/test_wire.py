"""docs/wire.md and docs/errors.md against the code: every endpoint, field, default and error."""

from __future__ import annotations

import inspect
import re
import sys
from importlib import util
from typing import Any

import msgspec
import pytest

from base import errors
from tests.instances import ROOT
from topics_project.urls import ROUTES
from wire.api import V0
from wire.endpoint import Endpoint
from wire.paging import PageQuery

PAGE = (ROOT / "docs" / "wire.md").read_text()
SHARED = {"list_records"}  # the query has the fields of a diff
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)}
ENDPOINTS = {f"{each.method} {each.path}": each for each in ROUTES.endpoints if each.api is V0}


def title(endpoint: Endpoint) -> str:
    return f"{endpoint.method} /" + re.sub(r"<str:(\w+)>", r":\1", endpoint.path)


def told(endpoint: Endpoint) -> str:
    """The part of the page that an endpoint stands in, and what holds everywhere."""
    parts = PAGE.split("\n## ")
    return parts[1] + next(part for part in parts if f"### {title(endpoint)}\n" in part)


def fields(shape: Any) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(shape)} if shape else {}


@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=lambda endpoint: endpoint.id)
def test_an_endpoint_is_described(endpoint: Endpoint) -> None:
    text = SECTIONS[title(endpoint)]
    assert f"Scope {f'`{endpoint.scope}`' if endpoint.scope else 'none'}" in text
    kinds = re.findall(r"^\| (field|query) \|", text, re.MULTILINE)
    assert ("field" in kinds) == bool(endpoint.body and fields(endpoint.body))
    own = set(fields(endpoint.query)) - set(PageQuery.__struct_fields__)
    assert endpoint.id in SHARED or ("query" in kinds) == bool(own)
    for shape in endpoint.shapes():
        assert untold(shape, told(endpoint)) == []


def untold(shape: Any, text: str) -> list[str]:
    return [name for name in fields(shape) if name != "performance" and f"`{name}`" not in text]


@pytest.mark.parametrize(
    ("writer", "name"),
    [
        ("wire.py", "wire.md"),
        ("codes.py", "errors.md"),
        ("commands.py", "cli.md"),
        ("options.py", "gateway.md"),
        ("metrics.py", "metrics.md"),
        ("alerts.py", "guides/monitoring.md"),
    ],
)
def test_the_tables_are_those_of_the_code(writer: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make docs` writes them."""
    monkeypatch.setattr("sys.path", [*sys.path, str(ROOT / ".ci")])  # the folder of a script that runs
    found = util.spec_from_file_location("writer", ROOT / ".ci" / writer)
    assert found
    assert found.loader
    tables = util.module_from_spec(found)
    found.loader.exec_module(tables)
    page = (ROOT / "docs" / name).read_text()
    assert tables.page(page) == page
    assert writer == "wire.py" or tables.HEAD in page
    assert not re.search(r"^\|.*\|---\|.*\| \w", page, re.MULTILINE)  # each row has a line of its own
    assert not re.search(r"\n\n\|.*\n(?!\|)", page)  # no table is empty


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
