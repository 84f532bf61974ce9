"""Each promise of docs/guarantees.md names what tries it, and that is there."""

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


def test_every_promise_is_tried() -> None:
    promises = [paragraph for paragraph in PAGE.split("\n\n") if paragraph.startswith("**")]
    assert len(promises) > 20
    assert [promise.splitlines()[0] for promise in promises if not NAMED.search(promise)] == []
