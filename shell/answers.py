"""Prints answers of the API: unchanged, with one JSON object a line, or as words and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from shell.table import Column, print_fields, print_table

Answer = dict[str, Any]


def print_json(answer: Answer) -> None:
    """Prints an answer on one line, without the field `performance`."""
    click.echo(msgspec.json.encode({name: value for name, value in answer.items() if name != "performance"}))


def print_one(answer: Answer, is_json: bool) -> None:
    """Prints one object, field by field."""
    (print_json if is_json else print_fields)(answer)


def print_listed(columns: Sequence[Column], found: Iterator[Answer], is_json: bool) -> None:
    """Prints the items of a list, one a line."""
    if not is_json:
        print_table(columns, found)
        return
    for each in found:
        print_json(each)


def print_done(words: str, answer: Answer, is_json: bool) -> None:
    """Prints an answer: in JSON, or as these words."""
    if is_json:
        print_json(answer)
    else:
        click.echo(words)


def print_put(name: str, answer: Answer, is_json: bool) -> None:
    """Prints the result of a PUT: created, or already there."""
    print_done(f"{name} is created" if answer["created"] else f"{name} exists, and has this config", answer, is_json)


def print_deleted(kind: str, name: str, answer: Answer, is_json: bool) -> None:
    """Prints the result of a DELETE: deleted, or already absent."""
    print_done(f"{name} is deleted" if answer["deleted"] else f"{kind} {name!r} does not exist", answer, is_json)
