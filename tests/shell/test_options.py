"""A command that sends a config has an option for each field of the body, with the same values and bounds."""

from __future__ import annotations

from typing import Any

import click
import msgspec
import pytest

from push.webhooks.config import PutWebhook
from queues.api.schedules import PutSchedule
from routers.routers import RouterConfig
from shell.cli import program
from topics.config import Config

ARGUMENTS = {"source", "dest", "url", "topics"}
# `durability` says more than `durable`, and `auto_create` has no effect.
WITHOUT = {"durable", "auto_create"}
CLAMPED = {"priority"}


def command(*names: str) -> click.Command:
    found: click.Command = program
    for name in names:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    return found


def options(of: click.Command) -> dict[str, click.Option]:
    """Returns the options of a command by the name of the field."""
    names = {"start": "from"}
    return {
        names.get(each.name or "", each.name or ""): each
        for each in of.params
        if isinstance(each, click.Option) and each.name not in ("is_json", "url", "key", "data_folder")
    }


def kinds(type: Any) -> list[Any]:
    """Returns the types of a field, without those that say that it is absent or null."""
    match type:
        case msgspec.inspect.Metadata(type=inner):
            return kinds(inner)
        case msgspec.inspect.UnionType(types=inner):
            return [kind for each in inner for kind in kinds(each)]
    return [] if isinstance(type, msgspec.inspect.NoneType) else [type]


@pytest.mark.parametrize(
    ("names", "shape"),
    [
        (("create",), Config),
        (("routers", "put"), RouterConfig),
        (("webhooks", "put"), PutWebhook),
        (("schedules", "put"), PutSchedule),
    ],
)
def test_options_are_the_fields_of_the_body(names: tuple[str, ...], shape: type[msgspec.Struct]) -> None:
    described = msgspec.inspect.type_info(shape)
    assert isinstance(described, msgspec.inspect.StructType)
    fields = {each.encode_name: each for each in described.fields if each.encode_name not in ARGUMENTS | WITHOUT}
    found = options(command(*names))
    assert {*found} == {*fields}
    compared = 0
    for name, option in found.items():
        (kind, *others) = kinds(fields[name].type)
        if isinstance(option.type, click.Choice):
            assert {*option.type.choices} == {*kind.values}, name
        elif isinstance(option.type, click.IntRange) and not others and name not in CLAMPED:
            assert (option.type.min, option.type.max) == (kind.ge, kind.le), name
        else:
            assert option.type is not click.INT, f"{name} has bounds"
            assert not isinstance(kind, msgspec.inspect.LiteralType) or others, f"{name} has choices"
            continue
        compared += 1
    assert compared or shape is PutSchedule
