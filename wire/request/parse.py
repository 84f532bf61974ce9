"""Parses a body or a query into a struct, or refuses it. The refusal names the error and its path.

Unknown fields are refused. The check is free, because the parser looks up each name in the struct anyway.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar, get_origin
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from django.conf import settings

from base.depth import too_deep
from base.errors import InvalidRequest
from base.surrogates import lone_surrogate
from wire.request import hints

T = TypeVar("T")
MOST_FIELDS = 1000  # fields of a query
AGAINST_CACHES = "_"  # a field of a query that some clients add so that no cache answers. It asks for nothing
STRICT: bool = settings.TOPICS_STRICT


class Request(msgspec.Struct, forbid_unknown_fields=STRICT):
    """A body or a query, or a part of one.

    An unknown field is refused, because the server cannot do what the field asks for. With TOPICS_STRICT=0 the server ignores
    unknown fields, for clients that send them.
    """


class Destruction(msgspec.Struct, forbid_unknown_fields=True):
    """A body or a query of a call that deletes. It always refuses an unknown field, because the field may protect records."""


class NoFields(msgspec.Struct, forbid_unknown_fields=True):
    """A body or a query of a call that takes no fields."""


def is_json(content_type: bytes | None) -> bool:
    return content_type == b"application/json" or (
        content_type is not None and content_type.partition(b";")[0].strip().lower() == b"application/json"
    )


def parse(body: bytes, shape: type[T]) -> T:
    """Returns the body as a struct. An empty body is an empty object. Raises InvalidRequest with the error and its path."""
    try:
        if not body.isascii():
            body.decode()
        return msgspec.json.decode(body or b"{}", type=shape)
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the body is not UTF-8 (byte {error.start})") from error
    except msgspec.MsgspecError as error:
        surrogate = lone_surrogate(body)
        raise (InvalidRequest(surrogate) if surrogate else hints.refused(error, shape, "body", len(body))) from error
    except RecursionError as error:
        raise too_deep("the JSON") from error


def query_pairs(raw: bytes) -> list[tuple[str, str]]:
    """Returns the names and values of a query. Raises InvalidRequest."""
    try:
        if b"%" in raw:
            unquote_to_bytes(raw).decode()
        return parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except UnicodeDecodeError as error:
        raise InvalidRequest("the query is not UTF-8") from error
    except ValueError as error:
        raise InvalidRequest(f"the query has too many fields: expected at most {MOST_FIELDS}") from error


def header_text(name: str, value: bytes) -> str:
    """Returns the text of a header, which is UTF-8, as in a body. Raises InvalidRequest."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the header {name} is not UTF-8 (byte {error.start})") from error


def parse_query(raw: bytes, shape: type[T]) -> T:
    """Returns the query as a struct. A list takes every value of its field, other fields take the last. Raises InvalidRequest."""
    if not raw:
        return shape()
    fields, given = query_fields(shape), dict[str, Any]()  # type: ignore[arg-type]
    for name, value in query_pairs(raw):
        if name == AGAINST_CACHES:
            continue
        if name not in fields:
            if shape.__struct_config__.forbid_unknown_fields:  # type: ignore[attr-defined]
                raise hints.unknown(name, list(fields), "query")
            continue
        if "\0" in value:
            raise InvalidRequest(f"{name} contains a NUL character: remove it")
        if fields[name]:
            given.setdefault(name, []).append(value)
        else:
            given[name] = value
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        raise hints.refused(error, shape, "query", len(raw)) from error


@functools.cache
def query_fields(shape: Any) -> dict[str, bool]:
    """Returns the names of a query's fields, and whether each takes several values."""
    return {field.encode_name: get_origin(field.type) is list for field in msgspec.structs.fields(shape)}
