"""Each guarantee of docs/guarantees.md has a row in the table of its tests, and these exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.instances import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED.findall(PAGE))))
def test_what_tries_a_promise_is_there(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_guarantee_is_tested() -> None:
    guarantees = re.findall(r"^\*\*([A-Z]\d+)\. ", PAGE, re.MULTILINE)
    rows = dict(re.findall(r"^\| ([A-Z]\d+) \|(.*)$", PAGE, re.MULTILINE))
    assert len(guarantees) > 30
    assert guarantees == list(rows)
    assert [name for name, row in rows.items() if not NAMED.search(row)] == []
