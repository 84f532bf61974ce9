"""Checks the imports between our modules, and the tables that statements name. Prints each fault, and then fails.

- A package imports only packages below it in this list.
- Modules do not import each other in a circle. An import inside a function counts like any other: it would only hide the circle.
- The Python client imports no package of the server, and no Django outside of topics_client/django.
- A module does not assign to another module, and does not append to a list of another module. topics_project/wiring.py fills
  slots instead (base/slot.py).
- A statement names only tables of its own package and of packages below. A statement writes only tables of its own package.
- Routers and filters of the gateway use what a plugin may use: the API, building blocks and the rewriting of requests. So the
  proxy and the configuration know plugins, and no plugin knows them.
- Statements on the log's tables are in topics/. Other packages use the log's views and functions, and the statements of
  topics/heads.py and topics/cursors/owned.py. Statements everywhere may read names and ids in topics_topic.

SQL files are the exception. Functions in routers/sql and push/sql insert spans and advance heads inside one statement, because
each additional round trip would hold the head's lock longer.

    topics_project   the site, where all is put together
    console          the operators' pages
    pipeline         the jobs on Spark
    shell            `topics …` at a shell
    push             Routemaster's bus
    routers          forwarding
    sockets          one WebSocket for streams, appends, jobs and groups
    mirrors          topics that get the records of other servers
    groups           consumer groups
    outbox           records that applications emit in their own transactions
    door             functions in PostgreSQL, which applications call in their own transactions
    queues           queues, whose jobs workers share
    watch            streams
    topics           the log
    gateway          several servers behind one address, in a process of its own
    wire             HTTP without a domain
    store            PostgreSQL without a domain
    http1            HTTP/1.1 in an event loop
    contract         the calls of a server, and the fields of their requests
    embedded         PostgreSQL and Redis for a machine without them
    base             errors, names, units, the clock
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAYERS = [line.split()[0] for line in str(__doc__).splitlines() if line.startswith("    ")]  # from the top
GROWS = ("append", "extend", "insert")
# Migrations of topics create these tables. Another package has the statements on them.
ELSEWHERE = {"topics_apikey": "wire", "topics_streamcount": "watch", "topics_watchsession": "watch"}
NAMES = "topics_topic"
# Asks which logins may write a table, and does not use the table.
ASKS_FOR_RIGHTS = ("topics_project.operations.privileges",)
PLUGINS = ("gateway.filters", "gateway.routers")
FOR_PLUGINS = (*PLUGINS, "gateway.api", "gateway.blocks", "gateway.errors", "gateway.rewrite", "gateway.watched_file")
VIEWS = ("topic_cursors", "topic_heads", "topic_log")  # for reads
CREATES = re.compile(r"^CREATE (?:UNLOGGED )?TABLE (\w+)", re.MULTILINE)
WRITES = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM|TRUNCATE)\s+(\w+)")


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {
    name_of(file): ast.parse(file.read_text())
    for package in (*LAYERS, "bench", "tests")
    for file in sorted((ROOT / package).rglob("*.py"))
}


def imported(module: str) -> Iterator[tuple[int, str, str]]:
    """Yields the line, the full name and the local name of each import of a module."""
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, alias.asname or alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (
                (node.lineno, f"{node.module}.{alias.name}", alias.asname or alias.name) for alias in node.names
            )


def upward() -> Iterator[str]:
    """Yields the imports of packages above."""
    for module in MODULES:
        package = module.split(".")[0]
        above = LAYERS[: LAYERS.index(package)] if package in LAYERS else []
        for line, other, _ in imported(module):
            if other.split(".")[0] in above:
                yield f"{module}:{line}: {package} is below {other.split('.')[0]} and must not import it"


def of_plugins() -> Iterator[str]:
    """Yields the imports of the gateway's routers and filters that no plugin may have."""
    for module in (each for each in MODULES if each.startswith(PLUGINS)):
        for line, other, _ in imported(module):
            if other.startswith("gateway.") and not other.startswith(FOR_PLUGINS):
                yield f"{module}:{line}: a plugin uses gateway.api and building blocks, and must not import {other}"


def circles() -> Iterator[str]:
    """Yields the circles of modules: the strongly connected parts of the graph of imports, by Tarjan's algorithm."""
    needs = {
        module: {other if other in MODULES else other.rpartition(".")[0] for _, other, _ in imported(module)}
        & set(MODULES)
        for module in MODULES
    }
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> Iterator[str]:
        index[module] = low[module] = len(index)
        path.append(module)
        for other in sorted(needs[module] - {module}):
            if other not in index:
                yield from visit(other)
            if other in path:
                low[module] = min(low[module], low[other])
        if low[module] == index[module]:
            circle = path[path.index(module) :]
            del path[path.index(module) :]
            if len(circle) > 1:
                yield f"{', '.join(sorted(circle))}: these modules import each other in a circle"

    for module in MODULES:
        if module not in index:
            yield from visit(module)


def reaching() -> Iterator[str]:
    """Yields the assignments of product modules to other modules, and what they append to lists of other modules."""
    for module in (each for each in MODULES if each.split(".")[0] in LAYERS):
        ours = {local: full for _, full, local in imported(module) if full.split(".")[0] in LAYERS}
        for node in ast.walk(MODULES[module]):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AugAssign | ast.AnnAssign):
                targets = [node.target]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in GROWS:
                targets = [node.func.value]
            for target in targets:
                if (
                    not (isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign))
                    and root(target) in ours
                ):
                    yield f"{module}:{target.lineno}: {ast.unparse(target)} belongs to {ours[root(target)]}: use a slot"


def root(target: ast.expr) -> str:
    """Returns the name at the begin of an expression like `a.b[c].d`, or an empty string."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""


def tables() -> dict[str, str]:
    """Returns the package that owns each table: tables of models, and those that SQL files create."""
    owners: dict[str, str] = {}
    for package in LAYERS:
        for node in ast.walk(MODULES.get(f"{package}.models", ast.Module([], []))):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "models.Model" for base in node.bases):
                owners[f"{package}_{node.name.lower()}"] = package
        for file in (ROOT / package / "sql" / "tables").glob("*.sql"):
            owners |= dict.fromkeys(CREATES.findall(file.read_text()), package)
    return owners | ELSEWHERE


def texts(module: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of each string of a module, except docstrings."""
    tree = MODULES[module]
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def foreign() -> Iterator[str]:
    """Yields the tables of other packages that statements write, of packages above, and of the log outside of topics/."""
    owners = tables()
    for module in (each for each in MODULES if each.split(".")[0] in LAYERS and ".migrations." not in each):
        if module in ASKS_FOR_RIGHTS:
            continue
        package = module.split(".")[0]
        for line, text in texts(module):
            written = set(WRITES.findall(text))
            yield from (f"{module}:{line}: {view} is a view for reads" for view in VIEWS if view in written)
            for table in sorted(set(re.findall(r"\w+", text)) & owners.keys()):
                owner = owners[table]
                if owner == package:
                    continue
                if owner not in LAYERS[LAYERS.index(package) :]:
                    yield f"{module}:{line}: {package} is below {owner} and must not name {table}"
                elif table in written:
                    yield f"{module}:{line}: {table} belongs to {owner}: only {owner} writes this table"
                elif owner == "topics" and table != NAMES:
                    yield f"{module}:{line}: {table} belongs to topics: use a view, function or statement of the log"


def client() -> Iterator[str]:
    """Yields the imports of the Python client that its wheel would lack."""
    root = ROOT / "clients" / "python"
    for file in sorted((root / "topics_client").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for package in {name.split(".")[0] for name in names}:
                if package in LAYERS or (package == "django" and "django" not in file.relative_to(root).parts):
                    yield f"{file.relative_to(ROOT)}:{node.lineno}: the client must not import {package}"


found = [*upward(), *of_plugins(), *circles(), *reaching(), *foreign(), *client()]
print("\n".join(found) or "Packages import only packages below, in no circle, and leave the log's tables to topics/.")
sys.exit(bool(found))
