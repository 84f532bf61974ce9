"""Every name in a page, comment or docstring exists, and every link of a reader leads to a file of this repository."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.instances import ROOT

pytestmark = pytest.mark.deep


# The pages that the project was begun with. They are not in the repository, so nothing may send a reader to them.
BEFORE = re.compile(r"\b(?:contract|design)[.]md|\bseeds[/]")
# A file by its path, or by its name alone where it lies beside the one that speaks of it.
NAMED = re.compile(r"(?<![\w*/.…-])((?:\.?[\w-]+/)*[\w-]+(?:\.\d+)?\.(?:py|sql|md))\b(?![\w…])")
EXAMPLES = {
    "PWD/manage.py",
    "spark.sql",
    "receiver.py",
    "shop.py",
    "by_hour.py",
    "test_by_hour.py",
}  # begins names of settings; a reader saves the others
# `name` followed by a file, in brackets or after "in": a function, class, method, attribute or constant.
OF_FILE = re.compile(r"`([\w.]+)`\s(?:in |\()([\w/]+\.py)\b")


def files() -> Iterator[str]:
    """The project's files: neither what git keeps, nor what was installed, compiled or run here."""
    for folder, within, names in os.walk(ROOT):
        within[:] = [name for name in within if name == ".ci" or not name.startswith((".", "__"))]
        yield from (str(Path(folder, name).relative_to(ROOT)) for name in names if not name.endswith(".pyc"))


FILES = sorted(files())
THERE = frozenset(FILES)


def prose(name: str) -> Iterator[tuple[int, str]]:
    """What people read of a file that names others, with the line it begins at: a page whole, of code its comments and docstrings."""
    suffix = Path(name).suffix
    text = "" if suffix == ".png" else (ROOT / name).read_text()
    match suffix if NAMED.search(text) else None:
        case ".py":
            yield from in_python(text)
        case ".sql":
            yield from ((n, line.partition("--")[2]) for n, line in enumerate(text.splitlines(), 1) if "--" in line)
        case ".md":
            yield from enumerate(text.splitlines(), 1)
        case ".toml":
            yield from ((n, line.partition("#")[2]) for n, line in enumerate(text.splitlines(), 1) if "#" in line)


def in_python(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and ast.get_docstring(node):
                yield first.lineno, str(first.value.value)


def places(said: str, speaker: str) -> Iterator[str]:
    """Where a file of that name would be: from the root, from the speaker's package, beside it, in its package's sql/, or in docs/."""
    package = speaker.split("/", 1)[0]
    yield from (said, f"{package}/{said}", f"{package}/sql/{said}", str(Path(speaker).parent / said), f"docs/{said}")


def test_no_reader_is_sent_to_a_page_that_is_not_here() -> None:
    sent = []
    for name in FILES:
        text = (ROOT / name).read_text(errors="ignore")
        sent += [f"{name}: {found[0]}" for found in BEFORE.finditer(text)]
    assert sent == []


def test_every_file_that_is_named_is_there() -> None:
    missing = []
    for speaker in FILES:
        for line, text in prose(speaker):
            for found in NAMED.finditer(text):
                said = found[1]
                if said in EXAMPLES:
                    continue
                if not any(place in THERE for place in places(said, speaker)):
                    missing.append(f"{speaker}:{line}: {said}")
    assert missing == []


def test_every_name_is_in_its_file() -> None:
    found, missing = 0, []
    for page in (name for name in FILES if name.endswith(".md")):
        for name, file in OF_FILE.findall((ROOT / page).read_text()):
            text = (ROOT / file).read_text()
            parts = name.split(".")
            found += 1
            if not all(re.search(rf"\b(?:def|class) {part}\b|\b{part}\b[^=\n]*=[^=]", text) for part in parts):
                missing.append(f"{page}: {name} ({file})")
    assert missing == []
    assert found > 10
