"""Writes the tables of fields in docs/wire.md from the shapes of the calls. `make docs` runs it; a test compares the page.

Each sentence stands once, below its field in the source, for the schema and for this page. In the section of a call, the table
that begins with `| field |` has the fields of the body, the table that begins with `| query |` those of the query, and the table
that begins with `| answer |` those of the answer. A shape within an answer has its rows in the first table that contains it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "wire.md"
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    # Settings that have no default. Nothing is connected to.
    os.environ |= {
        "DATABASE_URL": "postgresql://u@localhost/d",
        "REDIS_URL": "redis://localhost",
        "SECRET_KEY": "abcde" * 10,
        "DJANGO_SETTINGS_MODULE": "topics_project.settings",
    }
    import django

    django.setup()

import msgspec  # noqa: E402
from msgspec import inspect as kinds  # noqa: E402
from tables import replaced  # noqa: E402

from contract.config import DEFAULTS  # noqa: E402
from groups.joining import JoinQuery  # noqa: E402
from queues.work import WorkQuery  # noqa: E402
from routers.routers import DEFAULTS as ROUTER  # noqa: E402
from topics.append.copies import Copy  # noqa: E402
from topics.config import WholeConfig  # noqa: E402
from topics_project.urls import ROUTES  # noqa: E402
from wire.api import V0  # noqa: E402
from wire.documents.sentences import sentences  # noqa: E402
from wire.endpoint import Declaration  # noqa: E402
from wire.paging import PageQuery  # noqa: E402
from wire.schema import Shape  # noqa: E402

ANSWER, COPY = "| answer | meaning |", "| field of a copy | meaning |"
EVERYWHERE = ("performance", "clamped", "next_cursor")  # described once, in "What holds everywhere" and "Pages"
HEADS = {"field": "| field | type | default | meaning |", "query": "| query | type | default | meaning |"}
# Streams are not among the endpoints.
STREAMS = {"GET /v0/topics/:topic/work": WorkQuery, "GET /v0/topics/:topic/groups/:group/stream": JoinQuery}
# Defaults that a body leaves to the row that it makes.
STORED: dict[str, dict[str, Any]] = {
    "put_topic": DEFAULTS,
    "put_router": {"filter": None, "paused": False, **ROUTER},
    "GET /v0/topics/:topic/groups/:group/stream": {"partitions": 64, "partition_by": "tag", "from_seq": 0},
}
WITHIN = {
    "append": "records",
    "watch": "topics",
    "commit_group": "shares",
    "put_webhook": "retry",
}  # fields whose elements have rows of their own
BOUNDS = {2**63 - 1: "2^63 - 1", 2**62: "2^62", 2**31 - 1: "2^31 - 1"}
NEW = re.compile(r" ?(?:Default: )?`[^`]*` for a new \w+\.|(?:Default: )?(?=`[^`]*` for a new \w+[:,])")


def page(text: str) -> str:
    """Returns the page with its tables of fields as the shapes say them."""
    calls: dict[str, Any] = {title(each): each for each in ROUTES.endpoints if each.api is V0}
    calls |= {name: SimpleNamespace(id=name, body=None, query=shape) for name, shape in STREAMS.items()}
    parts = re.split(r"(?m)^(?=#{2,3} )", text)
    seen: set[Any] = set()
    return "".join(section(part, calls.get(part.partition("\n")[0].removeprefix("### ")), seen) for part in parts)


def title(of: Declaration) -> str:
    return f"{of.method} /" + re.sub(r"<str:(\w+)>", r":\1", of.path)


def section(text: str, of: Any, seen: set[Any]) -> str:
    """Returns the section of a call with other rows in its tables. `seen`: shapes of answers that have their rows."""
    if hasattr(of, "shapes"):
        text = replaced(text, ANSWER, lambda: answer(next(of.shapes()), seen))
    text = replaced(text, COPY, lambda: answer(Copy, seen))
    for kind, head in HEADS.items() if of else ():
        text = replaced(text, head, partial(table, of, kind))
    return text


def answer(shape: Any, seen: set[Any], prefix: str = "") -> Iterator[str]:
    """Yields the row of each field of an answer, and below it the rows of the shape that it contains."""
    said = sentences(shape)
    for field in fields(shape):
        if field.encode_name in EVERYWHERE or f"The {field.encode_name}'s name." in described(field.type):
            continue
        text = said.get(field.encode_name) or described(field.type)
        yield f"| `{prefix}{field.encode_name}` | {text.removesuffix('.')} |"
        inner, below = within(field.type)
        if inner is not None and inner not in (*seen, WholeConfig):
            seen.add(inner)
            yield from answer(inner, seen, prefix + field.encode_name + below)


def described(of: kinds.Type) -> str:
    return (of.extra_json_schema or {}).get("description", "") if isinstance(of, kinds.Metadata) else ""


def within(of: kinds.Type) -> tuple[Shape | None, str]:
    """Returns the shape that a field contains, and the path to its fields."""
    match of:
        case kinds.Metadata(type=inner):
            return within(inner)
        case kinds.UnionType(types=types):
            return next((found for each in types if (found := within(each))[0]), (None, ""))
        case kinds.StructType(cls=shape):
            return shape, "."
        case kinds.ListType(item_type=kinds.StructType(cls=shape)):
            return shape, "[]."
        case kinds.DictType(value_type=kinds.StructType(cls=shape)):
            return shape, ".*."
    return None, ""


def table(of: Declaration, kind: str) -> Iterator[str]:
    """Yields the rows of the fields of a call. `kind`: of its body (field), or of its query."""
    shape = of.body if kind == "field" else of.query
    for field in fields(shape):
        if issubclass(shape, PageQuery) and field.encode_name in PageQuery.__struct_fields__:
            continue  # they stand once, in "Pages"
        yield row(shape, field, of)
        if field.encode_name == WITHIN.get(of.id):
            inner, below = within(field.type)
            yield from (row(inner, each, of, field.encode_name + below) for each in fields(inner))


def fields(shape: Shape | None) -> tuple[kinds.Field, ...]:
    return kinds.type_info(shape).fields if shape else ()  # type: ignore[attr-defined]


def row(shape: Shape, field: kinds.Field, of: Declaration, prefix: str = "") -> str:
    said = NEW.sub("", sentences(shape)[field.encode_name]).replace(" for a new router", "")
    default = default_of(field, {} if prefix else STORED.get(of.id, {}))
    return f"| `{prefix}{field.encode_name}` | {kind_of(field.type)} | {default} | {said.strip().removesuffix('.')} |"


def default_of(field: kinds.Field, stored: dict[str, Any]) -> str:
    if field.encode_name in stored:
        value = stored[field.encode_name]
    elif field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    elif field.default in (msgspec.NODEFAULT, msgspec.UNSET):
        return ""
    else:
        value = field.default
    return f"`{msgspec.json.encode(value).decode()}`"


def kind_of(of: kinds.Type) -> str:
    """Returns the type of a field in words: `0 to 60000`, `"asc", "desc"`, `string`, `filter`."""
    match of:
        case kinds.Metadata(type=inner):
            return kind_of(inner)
        case kinds.UnionType(types=types):
            return ", ".join(kind_of(each) for each in types if not isinstance(each, kinds.NoneType))
        case kinds.IntType(ge=least, le=most):
            bounded = most not in (None, 2**63 - 1) and least is not None and (least, most) != (-(2**62), 2**62)
            return (
                f"{number(least)} to {number(most)}"
                if bounded
                else f"integer from {least}"
                if least == 1
                else "integer"
            )
        case kinds.LiteralType(values=values):
            return ", ".join(f"`{each}`" for each in values)
        case kinds.TupleType():
            return "filter"
    words = {kinds.BoolType: "boolean", kinds.StrType: "string", kinds.ListType: "array", kinds.RawType: "JSON"}
    return words.get(type(of), "object")


def number(bound: int | None) -> str:
    return "" if bound is None else BOUNDS.get(bound) or (f"-{BOUNDS[-bound]}" if -bound in BOUNDS else str(bound))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
