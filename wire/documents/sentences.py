"""The descriptions of a struct's fields: the string below each field in the source.

Such a string costs nothing when structs are made and used. It is read from the source when a client asks for the schema.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
from collections.abc import Iterator

import msgspec


def sentences(shape: type[msgspec.Struct]) -> dict[str, str]:
    """Returns the sentences of a struct's fields, also of inherited fields, by their names on the wire.

    A struct that is made of another one's fields names it as SENTENCES.
    """
    said: dict[str, str] = {}
    for each in reversed(shape.__mro__):
        if issubclass(each, msgspec.Struct) and each is not msgspec.Struct:
            source = vars(each).get("SENTENCES", each)
            said |= of_module(source.__module__).get(source.__name__, {})
    return {field.encode_name: said[field.name] for field in msgspec.structs.fields(shape) if field.name in said}


@functools.cache
def of_module(module: str) -> dict[str, dict[str, str]]:
    """Returns the sentences of a module by class and field."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: dict(of_class(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in itertools.pairwise(node.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(sentence))):
                yield name, " ".join(sentence.split())
