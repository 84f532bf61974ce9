"""Messages for an invalid body or query: the path of the value, the expected value, and a suggestion.

All messages have one format. Nothing here runs for a valid request.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from base.errors import InvalidRequest

# Patterns of msgspec's messages. A path is `$.topics[...].match[1]`: fields, indexes of an array, and values of an object.
UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*?)`(?: - at `(?P<path>\$[^`]*)`)?", re.DOTALL)
WRONG_WORD = re.compile(
    r"Invalid enum value (?P<quote>['\"])(?P<word>.*?)(?P=quote)(?: - at `(?P<path>\$[^`]*)`)?", re.DOTALL
)
STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
TRUNCATED = "Input data was truncated"
WRONG_VALUE = re.compile(
    r"Expected `(?P<kinds>[^`]*)`(?P<bound>(?: (?:of length )?[<>]=? \S+)?)(?:, got `(?P<got>\w+)`)?"
    r"(?: - at `(?P<path>\$[^`]*)`)?"
)
MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`(?: - at `(?P<path>\$[^`]*)`)?")
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
NEAR = 0.6  # least similarity of a suggestion
SHORTEST = 3  # characters of a word that gets a suggestion, and of the suggestion

# One description for each shape. It takes a millisecond, several times as long as a valid request, and never changes.
described = functools.cache(inspect.type_info)


def refused(error: msgspec.MsgspecError, shape: Any, where: str, length: int) -> InvalidRequest:
    """Returns the refusal of a body or a query that does not have `shape`. `where`: "body" or "query". `length`: its bytes."""
    said = str(error)
    if found := UNKNOWN.fullmatch(said):
        return unknown(found["field"], fields_at(shape, found["path"]), f"{where}{place(found['path'])}")
    if found := WRONG_WORD.fullmatch(said):
        words = words_at(shape, found["path"])
        return InvalidRequest(
            f"{invalid(where, found['path'])}: expected one of {', '.join(words)}, not {found['word'][:80]!r}",
            allowed=words,
            **field_at(found["path"]),
        )
    if said == TRUNCATED:
        return InvalidRequest(f"the JSON is incomplete: it ends at byte {length}", byte=length)
    if found := WRONG_VALUE.fullmatch(said):
        return InvalidRequest(f"{invalid(where, found['path'])}: expected {wanted(found)}", **field_at(found["path"]))
    if found := MISSING.fullmatch(said):
        return InvalidRequest(
            f"missing field {found['field']!r} in the {where}{place(found['path'])}", field=found["field"]
        )
    return InvalidRequest(f"{invalid(where, None)}: {said}")


def in_words(said: str) -> str:
    """Returns msgspec's message about a value in plain words, with msgspec's path at its end. Does not change other messages."""
    if not (found := WRONG_VALUE.fullmatch(said)):
        return said
    return f"expected {wanted(found)}" + (f" - at `{found['path']}`" if found["path"] else "")


def invalid(where: str, path: str | None) -> str:
    """Returns the beginning of each message about a value."""
    return f"invalid value in the {where}{place(path)}"


def wanted(found: re.Match[str]) -> str:
    """Returns the expected value in words: "a whole number of at least 0"."""
    kinds = " or ".join(KINDS.get(kind, kind) for kind in found["kinds"].split(" | "))
    *length, sign, bound = found["bound"].split() or ("", "")
    bounds = f"{' with a length' if length else ''} of {BOUNDS[sign]} {bound}" if sign else ""
    return f"{kinds}{bounds}{f', not {KINDS.get(got, got)}' if (got := found['got']) else ''}"


def unknown(field: str, known: Sequence[str], where: str) -> InvalidRequest:
    """Returns the refusal of an unknown field. It names a similar field as `nearest`, or else all fields as `allowed`."""
    shown = field[:80]
    if not known:
        return InvalidRequest(f"unknown field {shown!r}: this call takes no fields in the {where}", field=shown)
    near = nearest(field, known)
    unknown = f"unknown field {shown!r} in the {where}"
    if alike(field, near):
        return InvalidRequest(f"{unknown}: did you mean {near!r}?", field=shown, nearest=near)
    return InvalidRequest(f"{unknown}. Known fields: {', '.join(known)}", field=shown, allowed=list(known))


def nearest(word: str, words: Iterable[str]) -> str:
    """Returns the first of `words` that begins with `word`, or else the most similar. `words` must not be empty."""
    return max(words, key=lambda each: (each.startswith(word), not each.startswith(word) and likeness(word, each)))


def alike(word: str, other: str) -> bool:
    """Whether `other` is worth a suggestion. Two letters in common are not: `id` would suggest `uuid`, and `data` `at`."""
    return likeness(word, other) >= NEAR and min(len(word), len(other)) >= SHORTEST


def likeness(word: str, other: str) -> float:
    return difflib.SequenceMatcher(None, word[:80].lower(), other.lower()).ratio()


def field_at(path: str | None) -> dict[str, str]:
    """Returns the detail that names the field at a path: `records[0].tag`. The top level has no field."""
    return {"field": path[2:]} if path and path.startswith("$.") else {}


def place(path: str | None) -> str:
    """Returns a path in the words of a message, or an empty text for the top level."""
    return f" at {path[2:]}" if path else ""


def fields_at(shape: Any, path: str | None) -> list[str]:
    """Returns the names of the fields that an object at this path can have."""
    structs = [each for each in types_at(shape, path) if isinstance(each, inspect.StructType)]
    return [field.encode_name for struct in structs for field in struct.fields]


def words_at(shape: Any, path: str | None) -> list[str]:
    """Returns the words that are valid at this path."""
    literals = [each for each in types_at(shape, path) if isinstance(each, inspect.LiteralType)]
    return [str(word) for literal in literals for word in literal.values]


def types_at(shape: Any, path: str | None) -> list[inspect.Type]:
    types = members(described(shape))
    for field, index in STEP.findall(path or ""):
        types = [inner for each in types for found in below(each, field, index) for inner in members(found)]
    return types


def members(type: inspect.Type) -> list[inspect.Type]:
    """Returns the types of a union, without titles and descriptions."""
    match type:
        case inspect.UnionType(types=types):
            return [inner for each in types for inner in members(each)]
        case inspect.Metadata(type=inner):
            return members(inner)
    return [type]


def below(type: inspect.Type, field: str, index: str) -> list[inspect.Type]:
    """Returns the types one step of a path below this type."""
    match type:
        case inspect.StructType():
            return [each.type for each in type.fields if each.encode_name == field]
        case inspect.DictType() if index:
            return [type.value_type]
        case inspect.ListType() if index:
            return [type.item_type]
        case inspect.TupleType() if index.isdigit() and int(index) < len(type.item_types):
            return [type.item_types[int(index)]]
    return []
