"""Each guarantee of docs/guarantees.md has a test that names it, and no test names another (`pytest.mark.guarantee`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.instances import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()


def named() -> Iterator[str]:
    """The guarantees that tests and the rules of the crash harness name."""
    for path in ROOT.glob("tests/**/*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "mark.guarantee" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.guarantee":
                yield from (ast.literal_eval(each) for each in node.args)


def test_each_guarantee_is_tried_and_no_other() -> None:
    guarantees = re.findall(r"^\*\*([A-Z]\d+)\. ", PAGE, re.MULTILINE)
    assert len(guarantees) > 40
    assert len(set(guarantees)) == len(guarantees)
    assert sorted(set(named())) == sorted(guarantees)
