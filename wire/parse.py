"""What a body and a query have to be: each is parsed into a struct, or refused with what is wrong, and where."""

from __future__ import annotations

import functools
from typing import Any, TypeVar, get_origin
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from base.errors import InvalidRequest
from base.surrogates import lone_surrogate

T = TypeVar("T")
MOST_FIELDS = 1000  # of a query


def is_json(content_type: bytes | None) -> bool:
    return content_type == b"application/json" or (
        content_type is not None and content_type.partition(b";")[0].strip().lower() == b"application/json"
    )


def parse(body: bytes, shape: type[T]) -> T:
    """The body as a struct, no body as an empty object. Raises InvalidRequest: what is wrong, and where."""
    try:
        if not body.isascii():
            body.decode()
        return msgspec.json.decode(body or b"{}", type=shape)
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the body is not UTF-8 (byte {error.start})") from error
    except msgspec.MsgspecError as error:
        raise InvalidRequest(lone_surrogate(body) or str(error)) from error
    except RecursionError as error:
        raise InvalidRequest("the JSON is nested too deep") from error


def parse_query(raw: bytes, shape: type[T]) -> T:
    """The query as a struct: fields that are lists take every value, the others the last. Raises InvalidRequest."""
    if not raw:
        return shape()
    try:
        if b"%" in raw:
            unquote_to_bytes(raw).decode()
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except UnicodeDecodeError as error:
        raise InvalidRequest("the query is not UTF-8") from error
    except ValueError as error:
        raise InvalidRequest(f"the query has more than {MOST_FIELDS} fields") from error
    fields, given = query_fields(shape), dict[str, Any]()  # type: ignore[arg-type]
    for name, value in pairs:
        if name not in fields:
            continue
        if "\0" in value:
            raise InvalidRequest(f"{name} holds a NUL character")
        if fields[name]:
            given.setdefault(name, []).append(value)
        else:
            given[name] = value
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"query: {error}") from error


@functools.cache
def query_fields(shape: Any) -> dict[str, bool]:
    """The names of a query's fields, and whether each takes several values."""
    return {field.encode_name: get_origin(field.type) is list for field in msgspec.structs.fields(shape)}
