"""The statements that no operation of the growth executes and no test of plans names.

Each statement of the code is a constant of a module, and each function of SQL a file. Both count as seen if an operation
(__main__.py) executes them, so that `make bench-growth` counts what they read, or if a test of plans names them. A function is
also seen if one that is seen calls it. All others need a reason in EXCEPTIONS.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.instances import ROOT

PACKAGES = (
    *("store", "wire", "topics", "watch", "queues", "groups", "mirrors", "outbox", "door"),
    *("routers", "push", "console", "sockets", "topics_project"),
)
BEGINS = re.compile(r"\s*(--[^\n]*\n\s*)*(SELECT|WITH|INSERT|UPDATE|DELETE|LOCK|TRUNCATE)\b")
PLANS = "tests/*/test_*plans*.py", "tests/push/test_webhook_due.py", "tests/console/test_growth.py"
# Modules, constants of modules, and functions, by the reason why they stand in no plan.
EXCEPTIONS = {
    "begins, ends or replaces the whole site, or checks its rights": """
        store.objects.FOREIGN store.objects.SAVE store.objects.SIGNATURES store.serving topics.upkeep.recovery.EMPTY
        topics_project.operations.backups topics_project.operations.doctor topics_project.operations.privileges
        topics_project.operations.others door.rights outbox.captures.OUTLIVING role_made""",
    "reads a table of the site's own parts: processes, open problems, logins, or names of metrics": """
        console.health.heartbeat.ADD console.health.heartbeat.FORGET console.health.heartbeat.GOODBYE console.health.heartbeat.SAY
        console.health.signals.EMIT console.health.signals.ONE console.health.signals.SILENCE wire.access.keys.NOTE_USE""",
    "reads no table": "topics.config.LOCK_DEAD_LETTERS watch.feeds.FLUSHED",
    "is a part of a statement that a test of plans runs": """
        topics.append.statements.APPEND topics.read.ranges queue_drop queue_forget queue_letters queue_spent queues.counts.FORGET
        queues.dead queues.letters.LETTERS push_batch push_queued push_settle push_unreadable""",
    "names one row by a unique index, or the rows of a list by the primary key": """
        topics.heads.KEEP_TOPIC topics.heads.LOCK_FREE_VERSIONS topics.heads.LOCK_VERSIONS topics.heads.NAMED_HEAD
        topics.heads.OUTDATE_NAMED topics.heads.BACKLOG topics.cursors.named.OTHERS topics.cursors.named.WHERE_NOW
        topics.cursors.owned topics.delete.topic.FORGET_HEAD topics.config.DEAD_LETTERS topics.append.copies topics.append.traced
        topics.read.recency.FLUSH routers.reposition.RESUME routers.routers.SAVE routers.tasks.RUNNING routers.traced
        queues.figures.IDS queues.redrive.LOCK_DELETES groups.sessions.SETTLE groups.upkeep.STILL_IDLE mirrors.handover.LOSE
        watch.hub.HEADS console.jobs.WRITE console.records.records.WITHIN
        console.history.samples.HEADS console.history.samples.NOTE console.history.gone.DROP""",
    "works on the due schedules of one queue, or on the state of one topic that moves": """
        queues.due groups.state mirrors.state queues.state""",
    "has tests that count rows and dead entries in tests/outbox, with a relay": """
        outbox.drain outbox.losses outbox.packs outbox.relay outbox.snapshots outbox.waiting topics.outbox topics.emit_many
        capture_chunk capture_tend""",
    "calls, in a transaction of an application, the functions that a server calls": """
        topics.ack topics.nack topics.claim topics.commit_cursor topics.read_cursor topics.lag
        door_bury door_jobs door_queue door_settle door_worker""",
    "runs in Spark, whose plans tests/pipeline tests": """
        pipeline_append pipeline_check pipeline_earlier pipeline_follow pipeline_loss pipeline_mark""",
    "reads the whole store, for a person who waits": """
        topics.admin.trim topics.upkeep.usage console.history.samples.COUNT console.history.samples.THIN""",
    "is on the page of a subscriber, which tests/console/test_growth.py opens": "push.figures.CALLS push.figures.PAGE",
}
# Loops of a process execute these by the clock, so a walk may or may not see them.
BY_TIME = "push.reports.counters.ADD", "push.webhooks.leases"


def record(found: set[str]) -> None:
    """Notes each statement of an event loop, of a script in a thread, and of Django. Call it with Django's settings there."""
    from django.db.backends.utils import CursorWrapper

    from store import connection, database

    prepare, run, execute = connection.Connection.prepare, database.run, CursorWrapper._execute

    async def prepared(self: Any, statement: str) -> bytes:
        found.add(plain(statement))
        return await prepare(self, statement)

    def ran(opened: Any, statement: str, arguments: Any) -> Any:
        found.add(plain(statement))
        return run(opened, statement, arguments)

    def executed(self: Any, statement: Any, *rest: Any) -> Any:
        found.add(plain(str(statement)))
        return execute(self, statement, *rest)

    connection.Connection.prepare, database.run = prepared, ran  # type: ignore[method-assign]
    CursorWrapper._execute = executed


def plain(statement: str) -> str:
    return " ".join(statement.split())


def constants() -> Iterator[tuple[str, str]]:
    """Yields module.NAME and the text of each statement."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            if "migrations" in file.parts:
                continue
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            for node in ast.parse(file.read_text()).body:
                targets = node.targets if isinstance(node, ast.Assign) else []
                for target in targets:
                    if isinstance(target, ast.Name):
                        text = getattr(importlib.import_module(name), target.id)
                        if isinstance(text, str) and BEGINS.match(text):
                            yield f"{name}.{target.id}", plain(text)


def is_in(text: str, statements: str) -> bool:
    """Returns whether one of these statements has this text, whose {names} stand for any text."""
    parts = re.split(r"\{[\w.]*\}", text.replace("{{", "{").replace("}}", "}"))
    return text in statements or re.search(".*".join(re.escape(part.strip()) for part in parts), statements) is not None


def named_by(tests: list[Path]) -> set[str]:
    """Returns module.NAME for each name that these tests import, or take from a module that they import."""
    found: set[str] = set()
    for file in tests:
        tree = ast.parse(file.read_text())
        modules = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for each in node.names:
                    modules[each.asname or each.name] = f"{node.module}.{each.name}"
        found |= set(modules.values())
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                found.add(f"{modules[node.value.id]}.{node.attr}")
    return found


def functions() -> dict[str, str]:
    """Returns the text of each function and view of SQL."""
    files = [file for kind in ("functions", "views") for file in ROOT.glob(f"*/sql/{kind}/*.sql")]
    return {file.stem: file.read_text() for file in files}


def unreached(texts: list[str]) -> set[str]:
    """Returns the functions and views that neither these texts name nor those that they use."""
    bodies = functions()
    found: set[str] = set()
    while texts:
        words = set(re.findall(r"\w+(?:\.\w+)?", texts.pop()))
        for name in bodies.keys() & words - found:
            found.add(name)
            texts.append(bodies[name])
    return bodies.keys() - found


def unseen(executed: set[str]) -> list[str]:
    """Returns a line for each statement without a plan, and for each exception without a statement. `executed`: see record()."""
    statements = sorted(executed)
    tests = [file for pattern in PLANS for file in ROOT.glob(pattern)]
    everything, named = "\n".join(statements), named_by(tests)
    known = dict(constants())
    missing = {name for name, text in known.items() if name not in named and not is_in(text, everything)}
    texts = [*statements, *(known[name] for name in known.keys() & named), *(file.read_text() for file in tests)]
    missing |= unreached(texts)
    missing = {name for name in missing if not name.startswith(BY_TIME)}
    keys = {key for names in EXCEPTIONS.values() for key in names.split()}
    excepted = {name for name in missing for key in keys if name == key or name.startswith(f"{key}.")}
    lines = [f"{name}: no operation executes it, and no test of plans names it" for name in missing - excepted]
    there = {*known, *functions()}
    lines += [f"{key} does not exist" for key in keys if not any(f"{name}.".startswith(f"{key}.") for name in there)]
    return sorted(lines)
