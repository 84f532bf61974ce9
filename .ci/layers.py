"""Whether each package imports only what lies below it. Prints what does not, and then fails.

    topics_project   the site, where all is put together
    console          the operators' pages
    pipeline         the jobs on Spark
    shell            `topics …` at a shell
    push             Routemaster's bus
    routers          forwarding
    watch            streams
    topics           the log
    gateway          several servers behind one address, in a process of its own
    wire             HTTP without a domain
    store            PostgreSQL without a domain
    http1            HTTP/1.1 in an event loop
    base             errors, names, units, the clock

An import inside a function counts like any other: it would only hide the circle.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAYERS = [line.split()[0] for line in str(__doc__).splitlines() if line.startswith("    ")]  # from the top


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """The line and the top-level package of each import in a file."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module.split(".")[0]


def wrong() -> Iterator[str]:
    for place, package in enumerate(LAYERS):
        for file in sorted((ROOT / package).rglob("*.py")):
            for line, other in imported(file):
                if other in LAYERS[:place]:
                    yield f"{file.relative_to(ROOT)}:{line}: {package} is below {other} and must not import it"


found = list(wrong())
print("\n".join(found) or "Every package imports only what lies below it.")
sys.exit(bool(found))
