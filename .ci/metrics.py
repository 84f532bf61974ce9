"""Writes the tables of docs/metrics.md from the metrics that the code makes. `make docs` runs it; a test compares the page."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tables import replaced

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "metrics.md"
HEAD = "| metric | labels | meaning |"
PACKAGES = ("wire", "topics", "groups", "queues", "outbox", "routers", "push/webhooks", "console")


class Metric(NamedTuple):
    name: str
    labels: tuple[str, ...]
    said: str

    @property
    def row(self) -> str:
        return f"| `{self.name}` | {', '.join(f'`{each}`' for each in self.labels)} | {self.said} |"


def page(text: str) -> str:
    """Returns the page with the rows of the server in its first table, and those of the push bus in its second one."""
    found = iter((server(), push()))
    return replaced(text, HEAD, lambda: (each.row for each in next(found)))


def server() -> Iterator[Metric]:
    for package in PACKAGES:
        tree = ast.parse((ROOT / package / "metrics.py").read_text())
        values = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)]
        for name, said, labels in value_of("COUNTED", values, 10**6) or ():
            if not name.startswith("topics_request_"):  # they form the histogram
                yield Metric(name, labels, said)
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Name(id=kind), args=[ast.Constant(value=str(name)), ast.Constant(value=str(said)), *_]
                ) if kind.endswith("MetricFamily"):
                    counted = kind.startswith("Counter") and not name.endswith("_total")
                    yield Metric(name + "_total" * counted, tuple(labels_of(node, values)), said)


def labels_of(call: ast.Call, values: list[ast.Assign]) -> Iterator[str]:
    """Yields the labels of a metric: a tuple, or the name of one that was assigned before."""
    for keyword in call.keywords:
        if keyword.arg == "labels":
            named = isinstance(keyword.value, ast.Name)
            yield from (
                value_of(ast.unparse(keyword.value), values, call.lineno) if named else ast.literal_eval(keyword.value)
            )


def value_of(name: str, values: list[ast.Assign], line: int) -> tuple:
    """Returns the tuple that was last assigned to this name before a line."""
    found = [each for each in values if ast.unparse(each.targets[0]) == name and each.lineno < line]
    return ast.literal_eval(max(found, key=lambda each: each.lineno).value) if found else ()


def push() -> Iterator[Metric]:
    tree = ast.parse((ROOT / "push" / "reports" / "metrics.py").read_text())
    known = {
        ast.unparse(node.targets[0]): node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    counters = ast.literal_eval(known["COUNTERS"])
    for name, (labels, said) in ast.literal_eval(known["SAID"]).items():
        yield Metric(f"push_{name.replace('.', '_')}" + "_total" * name.startswith(counters), labels, said)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
