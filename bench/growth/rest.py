"""Operations beside the API: the tasks of the background, the commands, the pages of the console, and the care of a store."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from base.clock import now_ms
from bench.growth.calls import Client, Operation, Work
from bench.growth.site import Site
from tests.instances import ROOT as REPOSITORY

# -- the background -----------------------------------------------------------------------------------------------------------


UNSETTLED = "SELECT count(*) FROM topics_topichead WHERE unsettled"


def settle(site: Site) -> None:
    """Runs the work of the background, until nothing is due."""
    from routers import advance
    from topics.upkeep import reclaim, retention

    for source_id in advance.behind(now_ms()):
        for _ in advance.drain(source_id, now_ms):
            pass
    was = -1
    while (now := site.one(UNSETTLED)[0]) not in (0, was):
        was = now
        sample("")
        while retention.give_back_seqs(now_ms() + 60_000):
            pass
        retention.set_clocks(now_ms())
        for topic_id in reclaim.due(now_ms() + 60_000):
            while reclaim.reclaim(topic_id, now_ms()).more:
                pass
    site.database.execute("VACUUM topics_topichead")  # as autovacuum would, after so many changes


_minutes = (minute * 60_000 for minute in itertools.count(30_000_000) if minute % 60)  # not the hourly look at all


def sample(name: str) -> None:
    from console.history import samples

    samples.sample(next(_minutes))


def background(site: Site) -> Iterator[Operation]:
    """Each task of beat, when nothing is due."""
    from celery import current_app
    from django.conf import settings

    from push.delivery import running

    # The calls of the bus left clients behind. They are no part of the store, and no callback answers here.
    site.database.execute("TRUNCATE push_busclient, push_bustopic, push_subscriber, push_delivery CASCADE")
    current_app.loader.import_default_modules()
    for entry in settings.CELERY_BEAT_SCHEDULE.values():
        task = entry["task"]
        run = sample if task == "console.sample" else partial(perform, current_app.tasks[task])
        yield Operation(f"background: {task}", run)
    # The sweep of deliveries began the dispatcher, which would deliver beside the other operations.
    running.process.stop()
    running.process.running = None


def perform(task: Any, name: str) -> None:
    task.run()


# -- the console --------------------------------------------------------------------------------------------------------------

VALUES = {"name": "large", "seq": "151", "schedule": "s", "app_label": "topics", "action": "replay"}
ELSEWHERE = {
    "console_queue": "jobs",
    "console_schedules": "jobs",
    "console_router": "r1",
    "console_router_panel": "r1",
    "console_pause": "r1",
    "console_move": "r1",
}
NO_PAGES = ("login", "logout", "jsi18n", "view_on_site", "autocomplete", "password_change_done", "all")
FORMS_ALONE = ("console_pause", "console_move", "console_subscriber_pause")  # a POST
# Of a schedule, a problem and a subscriber, which the store lacks.
NO_OBJECTS = ("console_schedule", "console_silence", "console_subscriber")


def console(client: Client, cookie: str) -> Iterator[Operation]:
    """Each page of the admin's URLs, with the largest topic, and its lists."""
    from django.contrib import admin
    from django.urls import URLPattern

    def page(path: str) -> Work:
        return lambda name: client.page(path, cookie)

    def live(path: str, name: str) -> None:
        client.stream(path, "", Cookie=cookie)

    client.send("PUT", "/v0/webhooks/large", {"url": "https://example.com/", "topics": ["large"]})
    for pattern in admin.site.urls[0]:
        if not isinstance(pattern, URLPattern) or pattern.name is None:
            continue
        if pattern.name in (*NO_PAGES, *FORMS_ALONE, *NO_OBJECTS, "app_list"):
            continue
        values = VALUES | ({"name": ELSEWHERE[pattern.name]} if pattern.name in ELSEWHERE else {})
        path = re.sub(r"<(?:\w+:)?", "{", str(pattern.pattern)).replace(">", "}").format(**values)
        yield Operation(f"page: {pattern.name}", page(f"/admin/{path}"))
    for model in admin.site._registry:
        path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        yield Operation(f"page: list of {model._meta.verbose_name_plural}", page(path))
    yield Operation("page: topics with a part of a name", page("/admin/topics/topic/?q=t77"))
    yield Operation("page: graph of a prefix", page("/admin/graph/?prefix=t499"))
    yield Operation("page: graph around a topic", page("/admin/graph/?focus=large"))
    yield Operation("page: records at a time", page("/admin/topic/large/records/?at=2020-01-01T00:00:00"))
    yield Operation("page: records by a tag", page("/admin/topic/large/records/?tag=order:77"))
    yield Operation("page: records by their data", page("/admin/topic/large/records/?data=order%3D77"))
    for what in ("overview/3h", "graph/prefix=", "topic/3h%2Flarge"):
        path = f"/admin/stream/{what}"
        yield Operation(f"live: {what.partition('/')[0]}", partial(live, path))


def cookie() -> str:
    """Logs in the first admin. Returns the cookie of the session."""
    from django.contrib.auth import get_user_model
    from django.test import Client as Browser

    browser = Browser()
    browser.force_login(get_user_model()._default_manager.get(is_superuser=True))
    return f"sessionid={browser.cookies['sessionid'].value}"


# -- the commands -------------------------------------------------------------------------------------------------------------

# Each command of `topics`, with its arguments. {name}: of a new topic of two records, and of its cursor and router.
COMMANDS: dict[str, str] = {
    "append": "{name} {file}",
    "create": "{name}-new",
    "cursors delete": "{name} {name}",
    "cursors get": "large c5",
    "cursors list": "{name}",
    "cursors put": "large c5 --at head",
    "delete": "{name} --yes",
    "export": "{name}",
    "get": "large",
    "groups delete": "{name} {name}",
    "groups get": "t1 g1",
    "groups list": "t1",
    "ls": "large",
    "redrive": "dead --queue jobs --dry-run --limit 10",
    "routers delete": "{name}",
    "routers get": "r1",
    "routers list": "r999",
    "routers put": "{name}-2 {name} {name}-e",
    "schedules delete": "{name}-q {name}",
    "schedules get": "{name}-q {name}",
    "schedules list": "{name}-q",
    "schedules put": "{name}-q s --not-before 2040-01-01T00:00:00Z --data 1",
    "tail": "large",
    "trim": "large --seq 7",
    "usage": "",
    "webhooks delete": "{name}",
    "webhooks deliveries": "{name}",
    "webhooks get": "large",
    "webhooks list": "",
    "webhooks pause": "{name}",
    "webhooks put": "{name}-2 https://example.com/ {name}",
    "webhooks replay": "{name} --failed",
    "webhooks resume": "{name}",
    "webhooks rotate": "{name}",
    "webhooks test": "{name}",
    "work": "{name}-q --once -- true",
    "outbox list": "",
    "outbox retry": "",
    "rights list": "",
}
NOT_HERE = {
    "backup": "with the care of a store",
    "restore": "with the care of a store",
    "completion": "reads no store",
    "mirror": "the calls of a mirror are endpoints",
    "outbox skip": "nothing waits here",
    "rights grant": "writes rows of logins alone",
    "rights revoke": "writes rows of logins alone",
    "rights forget": "writes rows of logins alone",
    "uninstall": "would end the store",
}


def commands(client: Client, folder: Path) -> Iterator[Operation]:
    from shell.cli import program

    file = folder / "lines"
    file.write_text('{"a":1}\n{"a":2}\n')

    def make(name: str) -> None:
        client.send("POST", f"/v0/topics/{name}", {"records": [{"data": 1}, {"data": 2}]})
        client.send("PUT", f"/v0/topics/{name}/cursors/{name}", {"seq": 1})
        client.send("PUT", f"/v0/topics/{name}-q", {"type": "queue"})
        client.send("PUT", f"/v0/topics/{name}-q/schedules/{name}", {"not_before": 2**42, "data": 1})
        client.send("PUT", f"/v0/routers/{name}", {"source": name, "dest": f"{name}-d"})
        client.stream(f"/v0/topics/{name}/groups/{name}/stream", "joined")

    def hook(name: str) -> None:
        make(name)
        client.send("PUT", f"/v0/webhooks/{name}", {"url": "https://example.com/", "topics": [name]})

    for name in names_of(program):
        if name not in NOT_HERE:
            given = COMMANDS[name]
            yield Operation(
                f"topics {name}",
                command(name, given.replace("{file}", str(file))),
                hook if name.startswith("webhooks") else make,
            )


def names_of(group: Any, before: str = "") -> Iterator[str]:
    for name, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from names_of(found, f"{name} ")
        else:
            yield before + name


def command(name: str, given: str) -> Work:
    def work(of: str) -> None:
        from topics_project import shell

        text = io.BytesIO()
        said = io.TextIOWrapper(text, write_through=True)
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                shell.run(["topics", *name.split(), *given.replace("{name}", of).split()])
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(f"topics {name}: {ended.code} {text.getvalue()!r}") from ended

    return work


# -- the care of a store ------------------------------------------------------------------------------------------------------


def care(site: Site, client: Client) -> Iterator[Operation]:
    """Yields the care of a store by an operator."""
    from django.core.management import call_command

    from topics.upkeep import reclaim, totals
    from topics_project.operations.prepare import prepare_database

    ids: dict[str, int] = {}  # of deleted topics

    def doomed(name: str) -> None:
        records = [{"data": 1}] * 1000
        client.send("POST", f"/v0/topics/{name}?return_seqs=false", {"records": records})
        client.send("POST", f"/v0/topics/{name}/delete", {"before_seq": 1000})

    def reclaimed(name: str) -> None:
        assert reclaim.reclaim(site.one("SELECT id FROM topics_topic WHERE name = %s", name)[0], now_ms())

    def dropped(name: str) -> None:
        client.send("POST", f"/v0/topics/{name}?return_seqs=false", {"records": [{"data": 1}] * 1000})
        (ids[name],) = site.one("SELECT id FROM topics_topic WHERE name = %s", name)
        client.send("DELETE", f"/v0/topics/{name}")

    def reclaimed_whole(name: str) -> None:
        assert reclaim.reclaim(ids[name], now_ms()).removed

    def execute(sql: str) -> Work:
        return lambda name: site.database.execute(sql.encode())

    yield Operation("start: prepare the database", lambda name: prepare_database(lambda said: None))
    yield Operation("migrate, nothing to do", lambda name: call_command("migrate", interactive=False, verbosity=0))
    yield Operation("a new connection", lambda name: connected(site))
    yield Operation("reclaim 1,000 records", reclaimed, doomed)
    yield Operation("reclaim 1,000 records of a deleted topic", reclaimed_whole, dropped)
    yield Operation("vacuum the records, nothing to do", execute("VACUUM topics_record_logged"))
    yield Operation("vacuum the heads, nothing to do", execute("VACUUM topics_topichead"))
    yield Operation("the hourly sum of all topics", lambda name: totals.correct())


def connected(site: Site) -> None:
    import psycopg

    from topics.upkeep.recovery import RECOVER

    ours = site.sessions()
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(RECOVER.encode())
    site.wait_for_others(ours)


def copies(site: Site) -> Iterator[Operation]:
    """Backup and restore, in processes of their own, into a second database."""
    file, other = site.data / "backup", os.environ["DATABASE_URL"].replace("/topics?", "/restored?")

    def manage(*arguments: str, **environment: str) -> None:
        ours = site.sessions()
        argv = [sys.executable, str(REPOSITORY / "manage.py"), "topics", *arguments]
        done = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        site.wait_for_others(ours)

    def backup(name: str) -> None:
        file.unlink(missing_ok=True)
        manage("backup", str(file))

    def drop(name: str) -> None:
        site.database.execute("DROP DATABASE IF EXISTS restored")
        site.database.execute("CREATE DATABASE restored")

    yield Operation("topics backup", backup)
    yield Operation("topics restore", lambda name: manage("restore", str(file), DATABASE_URL=other), drop)
