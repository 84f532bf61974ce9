"""Tables for people. Numbers come first, to align the columns in spite of long names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import click


class Column(NamedTuple):
    heading: str
    field: str
    width: str  # as in a format string


def print_table(columns: Sequence[Column], rows: Iterator[dict[str, Any]]) -> None:
    first = list(islice(rows, 1))  # reads first, so that an error prints no heading
    click.echo(" ".join(f"{each.heading:{each.width}}" for each in columns))
    for row in chain(first, rows):
        click.echo(" ".join(f"{shown(row[each.field]):{each.width}}" for each in columns).rstrip())


def shown(value: Any) -> str:
    """Returns a value as text for people."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return " ".join(map(str, value))
    return str(value)


def print_fields(answer: dict[str, Any]) -> None:
    """Prints an object, one field a line."""
    for name, value in answer.items():
        if isinstance(value, dict) and name != "performance":
            print_fields({inner: each for inner, each in value.items() if inner not in answer})
        elif name != "performance":
            click.echo(f"{name:22} {shown(value)}")
