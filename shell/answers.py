"""How answers of the API are printed: as they are, one JSON object a line, or in words and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from shell.table import Column, print_fields, print_table

Answer = dict[str, Any]


def print_json(answer: Answer) -> None:
    """An answer as one line, without how long it took."""
    click.echo(msgspec.json.encode({name: value for name, value in answer.items() if name != "performance"}))


def print_one(answer: Answer, is_json: bool) -> None:
    """One thing, by its fields."""
    (print_json if is_json else print_fields)(answer)


def print_listed(columns: Sequence[Column], found: Iterator[Answer], is_json: bool) -> None:
    """What a list holds, a line each."""
    if not is_json:
        print_table(columns, found)
        return
    for each in found:
        print_json(each)


def print_put(name: str, answer: Answer, is_json: bool) -> None:
    """Whether a PUT created what it names."""
    if is_json:
        print_json(answer)
    else:
        click.echo(f"{name} is created" if answer["created"] else f"{name} is there, with that config")


def print_deleted(kind: str, name: str, answer: Answer, is_json: bool) -> None:
    """Whether there was anything to delete."""
    if is_json:
        print_json(answer)
    else:
        click.echo(f"{name} is deleted" if answer["deleted"] else f"there is no {kind} {name!r}")
