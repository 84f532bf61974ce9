"""Whether every script that is called is also run. Prints those that are not, and then fails.

A script is a generator: to call it does nothing yet. One that stands alone on its line, without `yield from`, `run` or `drive`,
is work that would silently never be done, and no type checker says so.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "store",
    "wire",
    "topics",
    "watch",
    "queues",
    "door",
    "outbox",
    "groups",
    "mirrors",
    "sockets",
    "routers",
    "push",
    "console",
    "pipeline",
    "shell",
    "topics_project",
    "tests",
    "bench",
    "clients",
)
TREES = {file: ast.parse(file.read_text()) for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))}


def module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removeprefix("clients.python.")


def scripts(tree: ast.Module) -> Iterator[str]:
    """The functions of a module that return a Script."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.returns and ast.unparse(node.returns).startswith("Script["):
            yield node.name


SCRIPTS = {f"{module(file)}.{name}" for file, tree in TREES.items() for name in scripts(tree)}


def names(file: Path, tree: ast.Module) -> dict[str, str]:
    """What each name of a module stands for: its own functions, and what it imports."""
    known = {name: f"{module(file)}.{name}" for name in scripts(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return known


def never_run(file: Path, tree: ast.Module) -> Iterator[str]:
    known = names(file, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func)
            first, _, rest = called.partition(".")
            if ".".join(filter(None, (known.get(first, first), rest))) in SCRIPTS:
                yield f"{file.relative_to(ROOT)}:{node.lineno}: {called}() is a script, and nobody runs it"


found = [line for file, tree in TREES.items() for line in never_run(file, tree)]
print("\n".join(found) or f"Each of {len(SCRIPTS)} scripts is run where it is called.")
sys.exit(bool(found))
