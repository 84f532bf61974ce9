"""Writes the tables of options in docs/gateway.md from the configurations. `make docs` runs it; a test compares the page.

Each sentence stands once, below its field in the source. In the section of a router or filter, it is the table that begins with
`| key | values | default | meaning |`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "gateway.md"
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402
from msgspec import inspect as kinds  # noqa: E402
from tables import replaced  # noqa: E402

from gateway import plugins  # noqa: E402
from wire.documents.sentences import sentences  # noqa: E402

HEAD = "| key | values | default | meaning |"
WORDS = {kinds.BoolType: "boolean", kinds.StrType: "string", kinds.ListType: "list", kinds.FloatType: "number"}


def page(text: str) -> str:
    """Returns the page with its tables of options as the configurations say them."""
    return "".join(map(section, re.split(r"(?m)^(?=#{2,3} )", text)))


def section(text: str) -> str:
    found = re.match(r"### (\w+)\n", text)
    if found is None or HEAD not in text:
        return text
    name = found[1]
    kind = "router" if name in plugins.OURS["router"] else "filter"
    shape = plugins.config_type(plugins.factory(kind, name))
    return replaced(text, HEAD, lambda: rows(shape))


def rows(shape: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """Yields the row of each field, and below it the rows of the struct that it contains."""
    said = sentences(shape)
    for field in kinds.type_info(shape).fields:  # type: ignore[attr-defined]
        values, inner, below = described(field.type)
        key = prefix + field.encode_name
        yield f"| `{key}` | {values} | {default_of(field)} | {said[field.encode_name].removesuffix('.')} |"
        if inner is not None:
            yield from rows(inner, key + below)


def described(of: kinds.Type) -> tuple[str, type[msgspec.Struct] | None, str]:
    """Returns the values in words, the struct that they contain, and the path to its fields."""
    match of:
        case kinds.Metadata(type=inner):
            return described(inner)
        case kinds.UnionType(types=types):
            return described(next(each for each in types if not isinstance(each, kinds.NoneType)))
        case kinds.StructType(cls=shape):
            return "mapping", shape, "."
        case kinds.ListType(item_type=kinds.StructType(cls=shape)):
            return "list", shape, "[]."
        case kinds.DictType(value_type=value):
            _, shape, below = described(value)
            return "mapping", shape, f".*{below}"
        case kinds.LiteralType(values=values):
            return ", ".join(f"`{each}`" for each in values), None, ""
        case kinds.IntType(ge=int(least), le=int(most)) if most < 2**62:
            return f"{least} to {most}", None, ""
        case kinds.IntType():
            return "integer", None, ""
    return WORDS[type(of)], None, ""


def default_of(field: kinds.Field) -> str:
    if field.required:
        return "required"
    value = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return "none" if value is None else f"`{msgspec.json.encode(value).decode()}`"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
