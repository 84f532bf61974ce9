"""Converts values of a document to typed structs. Reports all faults, while msgspec alone reports only the first."""

from __future__ import annotations

import types
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from gateway.configuration.document import Document, Fault, Path

Typed = TypeVar("Typed")


def convert(document: Document, value: Any, wanted: type[Typed], path: Path, faults: list[Fault]) -> Typed | None:
    """Returns `value` as a `wanted`. If the value has faults, adds all of them to `faults` and returns None."""
    before = len(faults)
    found = _converted(document, value, wanted, path, faults)
    return found if len(faults) == before else None


def _converted(document: Document, value: Any, wanted: Any, path: Path, faults: list[Fault]) -> Any:
    wanted = _present(wanted, value)
    inner = _bare(wanted, value)
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct) and isinstance(value, dict):
        return _struct(document, value, inner, path, faults)
    items = None
    if get_origin(inner) is list and isinstance(value, list):
        (each_type,) = get_args(inner)
        items = [_converted(document, each, each_type, (*path, place), faults) for place, each in enumerate(value)]
        wanted = Annotated[list[Any], *wanted.__metadata__] if get_origin(wanted) is Annotated else list[Any]
    try:
        found = msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        faults.append(Fault(document.line(path), f"{shown(path)}: {_sentence(error, value)}"))
        return None
    return found if items is None else items


def _present(wanted: Any, value: Any) -> Any:
    """Returns X for `X | None` if there is a value."""
    if get_origin(wanted) in (Union, types.UnionType) and value is not None:
        others = [each for each in get_args(wanted) if each is not type(None)]
        return others[0] if len(others) == 1 else wanted
    return wanted


def _bare(wanted: Any, value: Any) -> Any:
    """Returns X for Annotated[X, …], and for `X | None` if there is a value."""
    while (inner := _present(wanted, value)) is not wanted or get_origin(wanted) is Annotated:
        wanted = get_args(wanted)[0] if inner is wanted else inner
    return wanted


def _struct(
    document: Document, value: dict[Any, Any], wanted: type[msgspec.Struct], path: Path, faults: list[Fault]
) -> Any:
    fields = {field.encode_name: field for field in msgspec.structs.fields(wanted)}
    before, found = len(faults), dict[str, Any]()
    for name in value:
        if name not in fields:
            where = document.line((*path, str(name)))
            faults.append(Fault(where, f"{shown((*path, str(name)))}: unknown field{nearest(str(name), fields)}"))
    for name, field in fields.items():
        if name in value:
            found[field.name] = _converted(document, value[name], field.type, (*path, name), faults)
        elif field.required:
            faults.append(Fault(document.line(path), f"{shown(path)}: the field {name!r} is missing."))
    if len(faults) > before:
        return None
    try:
        return wanted(**found)  # __post_init__ can refuse combinations of fields
    except (TypeError, ValueError) as error:
        faults.append(Fault(document.line(path), f"{shown(path)}: {error}"))
        return None


def shown(path: Path) -> str:
    """Returns a path in readable form: virtualClusters[0].target."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the file"


def nearest(name: str, known: Any) -> str:
    """Returns the end of a sentence about an unknown name."""
    close = get_close_matches(name, list(known), n=1)
    if close:
        return f". Did you mean {close[0]!r}?"
    return f": expected one of {', '.join(sorted(known))}." if known else "."


def _sentence(error: msgspec.ValidationError, value: Any) -> str:
    """Returns msgspec's message without its path. Adds a hint if YAML read yes, no, on or off as a boolean."""
    text = str(error).partition(" - at ")[0].replace("`", "")
    if isinstance(value, bool) and "Expected str" in text:
        return f"{text}: put the word in quotes."
    return f"{text}."
