"""The OpenAPI document of /v0, made from the declarations of its endpoints (docs/wire.md).

Each description has one source. A handler's docstring describes the call, a string below a struct's field describes the field
(sentences.py), and an error's docstring describes the refusal (base/errors.py). The parser of requests uses the same defaults and
bounds.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.conf import settings
from msgspec import inspect as kinds

from base import errors
from wire.documents.sentences import sentences
from wire.endpoint import Declaration
from wire.schema import JSON, Error, Format, Shape

Part = dict[str, Any]
REFERENCE = "#/components/schemas/{name}"
NO_ITEMS = ("items", False)
METHODS = ("PUT", "POST", "GET", "DELETE")  # the order of a path's methods in the document
# The refusals of every call. NAMING: of calls with a name in the path. SENDING: of calls with a body.
ANYWHERE = (
    errors.InvalidRequest,
    errors.Unauthorized,
    errors.Forbidden,
    errors.NotAcceptable,
    errors.Throttled,
    errors.Internal,
    errors.NotReady,
    errors.StorageFull,
    errors.ShuttingDown,
)
NAMING, SENDING = (errors.NotFound,), (errors.PayloadTooLarge, errors.UnsupportedMediaType)
KEY = {
    "type": "http",
    "scheme": "bearer",
    "description": "Secret of an API key. Without a configured key, requests need no key.",
}
LICENSE = {"name": "MIT License", "identifier": "MIT"}
RETRY_AFTER = {"Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}}}


@dataclass(frozen=True, eq=False)
class API:
    """The described API. `about`: its description. `tags`: each with a sentence.

    `names`: the description, the schema and an example of each name in the paths. `operations`: its calls.
    """

    about: str
    tags: Mapping[str, str]
    names: Mapping[str, Part]
    operations: Sequence[Declaration]


@functools.cache
def schema(api: API) -> bytes:
    """Returns the document as JSON. Only a change of the code changes it."""
    return msgspec.json.encode(document(api))


def document(api: API) -> Part:
    """Returns the whole OpenAPI document."""
    shapes = Shapes(shapes_of(api.operations), {each.query for each in api.operations if each.query})
    paths: dict[str, Part] = {path_of(each): {} for each in api.operations}
    for each in sorted(api.operations, key=lambda each: METHODS.index(each.method)):
        paths[path_of(each)][each.method.lower()] = operation(each, api, shapes)
    return {
        "openapi": "3.1.0",
        "info": {"title": "topics", "version": settings.VERSION, "description": api.about, "license": LICENSE},
        "servers": [{"url": "/"}],
        "tags": [{"name": tag, "description": sentence} for tag, sentence in api.tags.items()],
        "paths": paths,
        "components": {"schemas": dict(sorted(shapes.components.items())), "securitySchemes": {"key": KEY}},
    }


def path_of(of: Declaration) -> str:
    return "/" + re.sub(r"<str:(\w+)>", r"{\1}", of.path)


def shapes_of(operations: Iterable[Declaration]) -> Iterator[Shape]:
    """Yields the shapes of bodies and answers."""
    for each in operations:
        yield from (*each.bodies(), *each.shapes(), *(format.shape for format in each.formats()))


class Shapes:
    """The schemas of all shapes. The document has `components` as they are, and `queries` as parameters."""

    def __init__(self, shapes: Iterable[Shape], queries: Collection[Shape]) -> None:
        every = sorted(structs([*shapes, *queries, Error]), key=lambda shape: shape.__name__)
        _, schemas = msgspec.json.schema_components(every, ref_template=REFERENCE)
        for shape in every:
            describe(shape, schemas[shape.__name__])
        schemas["Problem"]["properties"]["code"] |= {"enum": sorted(every_code()), "title": "Code"}
        self.named: dict[str, Part] = {}
        schemas = {name: self.plain(each) for name, each in schemas.items()}
        self.queries = {shape: schemas.pop(shape.__name__) for shape in queries}
        self.components = dict(sorted((schemas | self.named).items()))

    def body(self, of: Declaration) -> Part:
        """Returns the schema of a call's body. A body with several shapes becomes a component, because some generators send `{}`
        for one within the call. Other generators name that one after the call, so the component has this name.

        It is a oneOf. For an anyOf, the generator for Rust makes one struct with the fields of all shapes, which can only send a
        copy. With TOPICS_STRICT=0 a copy has both shapes, but no generated client checks what it sends."""
        bodies = [reference(shape.__name__) for shape in of.bodies()]
        if len(bodies) == 1:
            return bodies[0]
        name = "".join(map(str.capitalize, of.id.split("_"))) + "Request"
        described = f"The body of `{of.id}`, which has one of several shapes."
        self.components[name] = {"title": name, "description": described, "oneOf": bodies}
        return reference(name)

    def plain(self, part: Any) -> Any:
        """Returns the schema in a form that generators of clients understand. Each point below is an error of some generator.

        - A field with a `default` becomes required in some clients, so the description names the default instead.
        - An integer without a format has 32 bits, too few for a seq or a time.
        - An `enum` without a type becomes a class without values.
        - An object without properties becomes an empty one, so it says that it allows any.
        - Generators fail at `items: false`, which only repeats the other bounds.
        - Each enum within a struct becomes a class of that struct, so a schema with a title becomes a component.
        """
        if isinstance(part, list):
            return [self.plain(each) for each in part]
        if not isinstance(part, dict):
            return part
        kept = {key: self.plain(each) for key, each in part.items() if key != "properties" and (key, each) != NO_ITEMS}
        if "properties" in part:
            return kept | {"properties": {name: self.field(each) for name, each in part["properties"].items()}}
        if "enum" in kept:
            values = kept.pop("enum")
            kept |= {"type": "string"} | ({"enum": values} if len(values) > 1 else {"const": values[0]})
        if kept.get("type") == "integer":
            kept["format"] = "int64"
        if kept == {"type": "object"}:
            return self.hoisted("JsonObject", kept | {"additionalProperties": True})
        if "title" in kept:
            return self.hoisted(kept.pop("title"), kept)
        return kept

    def field(self, part: Part) -> Part:
        """Returns the schema of a struct's field."""
        default = part.get("default")
        kept = {key: each for key, each in part.items() if key not in ("default", "x-stored", "description")}
        said = [part["description"]] if "description" in part else []
        if default is not None:
            said.append(f"Default: `{json.dumps(default)}`.")
        if (
            "x-stored" in part
        ):  # the default of what is stored. A client that sent it with each change would undo other changes.
            said.append(part["x-stored"])
        return self.plain(kept) | ({"description": " ".join(said)} if said else {})

    def hoisted(self, name: str, part: Part) -> Part:
        """Make a component of a schema. Returns the reference to it, with the description. Equal names mean equal schemas."""
        said = {"description": part.pop("description")} if "description" in part else {}
        if self.named.setdefault(name, {"title": name, **part}) != {"title": name, **part}:
            raise ValueError(f"{name} is the title of two different schemas")
        return reference(name) | said


def structs(shapes: Iterable[Shape]) -> set[Shape]:
    """Returns these structs and all structs inside them."""
    found: set[Shape] = set()
    left: list[Any] = list(kinds.multi_type_info(shapes))
    while left:
        match left.pop():
            case kinds.StructType(cls=shape, fields=fields) if shape not in found:
                found.add(shape)
                left += [field.type for field in fields]
            case kinds.UnionType(types=types):
                left += types
            case kinds.DictType(value_type=inner) | kinds.ListType(item_type=inner) | kinds.Metadata(type=inner):
                left.append(inner)
    return found


def describe(shape: Shape, schema: Part) -> Part:
    """Add the sentences of a struct's fields to its schema."""
    for name, sentence in sentences(shape).items():
        schema["properties"][name] = {**schema["properties"][name], "description": sentence}
    return schema


def reference(name: str) -> Part:
    return {"$ref": REFERENCE.format(name=name)}


def operation(of: Declaration, api: API, shapes: Shapes) -> Part:
    summary, _, more = of.summary.partition("\n\n")
    needs = f"Needs a key with the scope `{of.scope}`." if of.scope else "Needs no key."
    said: Part = {
        "operationId": of.id,
        "tags": [of.tag],
        "summary": " ".join(summary.split()).removesuffix("."),
        "description": " ".join([*more.split(), needs]),
        "security": [{}, {"key": [of.scope]}] if of.scope else [],
        "parameters": [*named(of, api.names), *asked(of, shapes), *headers(of)],
        "responses": dict(responses(of)),
    }
    if of.body is not None:
        content = {"schema": shapes.body(of), "example": of.example}
        others = of.translation.formats if of.translation is not None else ()
        said["requestBody"] = {"required": of.needs_body, "content": {JSON: content}, **formatted(others)}
    return said


def named(of: Declaration, names: Mapping[str, Part]) -> Iterator[Part]:
    """Yields the parameters in the path."""
    for name in re.findall(r"<str:(\w+)>", of.path):
        part = {"name": name, "in": "path", "required": True, **names[name]}
        yield {**part, "example": of.names.get(name, part["example"])}


def asked(of: Declaration, shapes: Shapes) -> Iterator[Part]:
    """Yields the parameters in the query."""
    whole = shapes.queries[of.query] if of.query else {"properties": {}}
    for name, given in whole["properties"].items():
        schema = without_null(given)
        described = {"description": schema.pop("description", ""), "schema": schema}
        shown = {"example": of.names[name]} if name in of.names else {}
        yield {"name": name, "in": "query", "required": name in whole.get("required", ()), **described, **shown}


def without_null(schema: Part) -> Part:
    """Returns the schema of a field without null. A query or a form cannot contain null, so clients omit the field instead."""
    if {"type": "null"} not in schema.get("anyOf", ()):
        return dict(schema)
    kept, *others = (each for each in schema["anyOf"] if each != {"type": "null"})
    inner = {"anyOf": [kept, *others]} if others else kept
    return inner | {name: value for name, value in schema.items() if name not in ("anyOf", "default")}


def headers(of: Declaration) -> Iterator[Part]:
    for name, sentence in of.headers.items():
        yield {"name": name, "in": "header", "description": sentence, "schema": {"type": "string"}}


def told(of: Declaration) -> Part:
    """Returns the headers that the answers can have."""
    named = {name: {"description": said, "schema": {"type": "string"}} for name, said in of.tells.items()}
    return {"headers": named} if named else {}


def responses(of: Declaration) -> Iterator[tuple[str, Part]]:
    for status, answers in of.answers.items():
        content = {}
        every = answers if isinstance(answers, tuple) else (answers,)
        for answer in every:
            if isinstance(answer, str):
                content[answer] = {"schema": {"type": "string"}}
            elif not isinstance(answer, Format):
                content[JSON] = {"schema": reference(answer.__name__)}
        others = formatted(each for each in every if isinstance(each, Format))
        yield str(status), {"description": done(status, of), "content": content, **others, **told(of)}
    for status, said in codes(refused_with(of)).items():
        described = "\n".join(f"- `{code}`: {sentence}" for code, sentence in said.items())
        refused = {"description": described, "content": {JSON: {"schema": reference("Error")}}}
        headers = {"headers": RETRY_AFTER} if status in (429, 503) else told(of) if status == 409 else {}
        yield str(status), {**refused, **headers}


def formatted(formats: Iterable[Format]) -> Part:
    """Returns the description of further formats of JSON, in a field that generators of clients leave out.

    With several formats as `content`, the types of generated clients do not say which one a call has.
    """
    described = {}
    for each in formats:
        schema = reference(each.shape.__name__)
        described[each.media] = {"schema": {"type": "array", "items": schema} if each.is_array else schema}
    return {"x-content": described} if described else {}


def refused_with(of: Declaration) -> list[type[errors.TopicsError]]:
    """Returns every refusal that a call can get."""
    return [*ANYWHERE, *of.errors, *(NAMING if "<" in of.path else ()), *(SENDING if of.body else ())]


def done(status: int, of: Declaration) -> str:
    if status == 201:
        return "Done. The object was created."
    return "Done. The object existed before." if 201 in of.answers else "Done."


def every_code() -> set[str]:
    """Returns the codes of all refusals."""
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.TopicsError)]
    return {each.code for each in found if each is not errors.TopicsError}


def codes(of: Iterable[type[errors.TopicsError]]) -> dict[int, dict[str, str]]:
    """Returns the codes of each status, with their sentences."""
    found: dict[int, dict[str, str]] = {}
    for each in of:
        found.setdefault(each.status, {})[each.code] = " ".join((each.__doc__ or "").split())
    return dict(sorted(found.items()))
