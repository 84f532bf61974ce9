"""Measures how plain our English is. Prints each figure above its limit with the hardest sentences, and then fails.

    kind        who/what   openings
    docs            0.15        0.5
    comments        0.25        1.0
    messages        0.15        0.5
    tests           1.50        6.5
    names           1.70        7.0

- who/what: the number of these words per 100 words. They stand in the place of a noun.
- openings: the percentage of sentences with Who, What, Of, That or a similar word at the beginning.

docs are README.md, CONTRIBUTING.md and docs/. comments are comments and docstrings of the code, also of its JavaScript, tests
those of tests/, and names the names of tests, read as sentences. messages are string literals of five words or more. The
figures cannot see whether a sentence is clear. CONTRIBUTING.md has the rules.

The limits only become tighter: `.ci/words.py --tighten` writes today's figures into this table where they are lower. The check
does not fail if a limit could be tighter, because then every improvement would need a second edit.

Terms come from docs/concepts.md. A term is defined once. A word of the table "Retired words" in CONTRIBUTING.md must not occur in
docs, comments and messages. Code in backquotes does not count.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^    (\w+)((?: +[\d.]+){2})$", re.M)
WHO = re.compile(r"\b(who|whom|whose|what|whoever|whatever)\b", re.I)
OPENING = re.compile(r"(Who|What|Whoever|Whatever|Where|Of|That|Nobody|None|Neither|Nor|Each of|Should)\b(?!.*\?$)")
SQL = re.compile(r"\b(SELECT|UPDATE|INSERT|DELETE|FROM|WHERE|CREATE|JOIN)\b")
TERMS, RETIRED = "docs/concepts.md", "CONTRIBUTING.md"  # the pages with these tables
STEPS = (0.05, 0.5)  # a tightened limit is rounded up to a multiple of its step
MARKUP = (  # of Markdown: not prose, and what stands in its place
    (r"(?s)```.*?```", ""),
    (r"(?m)^(    |\t).*$", ""),
    (r"(?m)^\s*[|#>].*$", "\n"),
    (r"!\[[^\]]*\]\([^)]*\)", ""),
    (r"\[([^\]]*)\]\([^)]*\)", r"\1"),
    (r"<[^>]+>", ""),
    (r"`[^`]*`", "code"),
    (r"[*_]", ""),
    (r"(?m)^\s*([-*]|\d+\.)\s+", "\n"),
)


class Text(NamedTuple):
    kind: str
    place: str  # file:line
    text: str


def texts() -> Iterator[Text]:
    """Yields every page, comment, docstring and message of the repository, with migrations left out, which never change."""
    for folder, within, names in os.walk(ROOT):
        within[:] = [name for name in within if name == ".ci" or not name.startswith((".", "__", "migrations"))]
        for name in sorted(names):
            path = Path(folder, name)
            file = str(path.relative_to(ROOT))
            if path == Path(__file__).resolve():
                continue  # this file quotes the words that it counts
            if file in ("README.md", "CONTRIBUTING.md") or (file.startswith("docs/") and name.endswith(".md")):
                yield Text("docs", file, path.read_text())
            elif name.endswith(".py"):
                yield from of_python(file, path.read_text())
            elif name.endswith(".sql"):
                yield from comments(file, path.read_text(), "--")
            elif name.endswith(".js") and not name.endswith(".min.js"):
                yield from comments(file, path.read_text(), "//")


def of_python(file: str, source: str) -> Iterator[Text]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings, literals = [], []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            docstrings.append(node.body[0].value)  # type: ignore[attr-defined]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            literals.append(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            sentence = node.name.removeprefix("test_").replace("_", " ").capitalize()
            yield Text("names", f"{file}:{node.lineno}", sentence)
    for node in docstrings:
        yield Text(kind_of(file), f"{file}:{node.lineno}", node.value)
    yield from comments(file, source, "#")
    if kind_of(file) == "comments":
        for node in literals:
            if node not in docstrings and len(node.value.split()) >= 5 and not SQL.search(node.value):
                yield Text("messages", f"{file}:{node.lineno}", node.value)


def kind_of(file: str) -> str:
    return "tests" if file.startswith("tests/") else "comments"


def comments(file: str, source: str, mark: str) -> Iterator[Text]:
    """Yields each block of comment lines."""
    block: list[str] = []
    for number, line in enumerate([*source.split("\n"), ""], 1):
        if found := re.match(rf"\s*{mark}(?!!)\s?(.*)$", line):
            block.append(found[1])
        elif block:
            yield Text(kind_of(file), f"{file}:{number - len(block)}", " ".join(block))
            block = []


def prose(text: str) -> str:
    for pattern, new in MARKUP:
        text = re.sub(pattern, new, text)
    return text


def sentences(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`\"])", " ".join(paragraph.split())):
            if len(sentence.split()) >= 4:
                yield sentence


def measured(found: list[str]) -> tuple[float, ...]:
    """Returns both figures of these sentences."""
    words = max(1, sum(len(each.split()) for each in found))
    return (
        100 * sum(len(WHO.findall(each)) for each in found) / words,
        100 * sum(bool(OPENING.match(each)) for each in found) / max(1, len(found)),
    )


def hardness(sentence: str) -> float:
    marks = 3 * len(WHO.findall(sentence)) + 3 * bool(OPENING.match(sentence))
    return (marks + 2 * sentence.count(";")) / (8 + len(sentence.split()))


def read(file: str) -> str:
    return (ROOT / file).read_text() if (ROOT / file).exists() else ""


def terms() -> tuple[list[str], dict[str, str]]:
    """Returns the terms that the pages define, and the retired words with their replacements."""
    known, retired = read(TERMS), read(RETIRED).partition("## Retired words")[2]
    defined = [
        term for row in re.findall(r"^\| (\*\*.*?\*\*) \|", known, re.M) for term in re.findall(r"\*\*(.*?)\*\*", row)
    ]
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", retired, re.M)
    return defined, {old: new for olds, new in rows for old in olds.split(", ") if not old.startswith(("not", "-"))}


def wrong_terms(found: list[Text]) -> Iterator[str]:
    """Yields the terms that are defined twice, and the places of retired words."""
    defined, retired = terms()
    for term in sorted({each for each in defined if defined.count(each) > 1}):
        yield f"{TERMS}: **{term}** is defined twice: keep one definition"
    words = re.compile(rf"\b({'|'.join(map(re.escape, retired))})\b", re.I) if retired else re.compile(r"(?!)")
    for kind, place, text in found:
        if kind not in ("tests", "names") and place != RETIRED and not place.partition(":")[0].endswith(".sql"):
            for old in words.findall(re.sub(r"`[^`]*`", "", text)):
                yield f"{place}: “{old}” is retired: write {retired[old.lower()]}"


def main() -> int:
    found = list(texts())
    faults, lines = list(wrong_terms(found)), []
    for kind, row in ROW.findall(str(__doc__)):
        limits = tuple(map(float, row.split()))
        rows = [
            (s, place) for k, place, text in found if k == kind for s in sentences(prose(text) if k == "docs" else text)
        ]
        figures = measured([sentence for sentence, _ in rows])
        shown = "   ".join(f"{figure:.2f} of {limit:g}" for figure, limit in zip(figures, limits, strict=True))
        print(f"{kind:9} {shown}")
        if any(figure > limit for figure, limit in zip(figures, limits, strict=True)):
            faults.append(f"{kind}: a figure is above its limit. The hardest sentences:")
            rows.sort(key=lambda each: -hardness(each[0]))
            faults += [f"  {place}: {sentence[:160]}" for sentence, place in rows[:15]]
        tight = [
            min(limit, -(-figure // step) * step) if rows else limit
            for figure, limit, step in zip(figures, limits, STEPS, strict=True)
        ]
        lines.append(f"    {kind:8} {tight[0]:11.2f} {tight[1]:10.1f}")
    if "--tighten" in sys.argv:
        file = Path(__file__)
        file.write_text(ROW.sub(lambda _: lines.pop(0), file.read_text()))
    print("\n".join(faults) or "Every figure is within its limit, and every word has one meaning.")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
