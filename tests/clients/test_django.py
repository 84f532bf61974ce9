"""The Django app of the Python client: events, handlers that are killed, checks, and a look at events in tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, start, until
from tests.processes import child_process
from tests.watch.wire import Api

pytestmark = pytest.mark.deep(71)


FOLDER = Path(__file__).parent / "django_shop"
PAGE = """
import json
from django.contrib.auth.models import Permission, User
from django.test import Client
url = "/admin/topics_client/handlerstate/"
client = Client()
client.force_login(User.objects.get_or_create(username="guest", is_staff=True)[0])
statuses = [client.get(url).status_code]
user, _ = User.objects.get_or_create(username="operator", is_staff=True)
user.user_permissions.add(Permission.objects.get(codename="view_handlerstate"))
client.force_login(user)
page = client.get(client.get("/admin/").content.decode().split('"model-handlerstate')[1].split('href="')[1].split('"')[0])
statuses.append(page.status_code)
told = {row.handler.name: [row.lag.waiting, row.lag.oldest is not None, row.lag.unknown, row.is_running]
        for row in page.context_data["rows"]}
print(json.dumps([statuses, told, page.content.decode()]))
"""
EVENTS = """
from datetime import datetime, timezone
from decimal import Decimal
from django.db import transaction
from shop.models import Order
order = Order.objects.create(total=Decimal("19.90"), placed_at=datetime(2026, 11, 27, tzinfo=timezone.utc))
order.total = Decimal("7.5")
order.save()
try:
    with transaction.atomic():
        Order.objects.create(total=1)
        raise ValueError
except ValueError:
    pass
order.delete()
two = Order.objects.create(total=2)
Order.objects.filter(total=2).delete()
kept = Order.objects.create(total=3)
for refused in (lambda: Order(total=4).save(using="other"), Order.objects.using("other").filter(total=3).delete):
    try:
        refused()
    except RuntimeError as error:
        print(error)
print(Order.objects.count())
"""
STORED = """
from django.core import serializers
from django.db.models import F
from shop.models import Bundle, Item
item = Item.objects.create(count=1)
item.count, item.name = 9, "tea"
item.save(update_fields=["name"])
item.save(update_fields=[])
print(item.count)
item.count = F("count") + 1
item.save()
Item(id=item.id, count=5, name="pot").save()
Item.objects.defer("name").get().save(False, False, "default")
gone = Item.objects.get()
item.delete()
gone.delete()
bundle = Bundle.objects.create(count=2, size=3)
bundle.save()
bundle.delete()
Bundle.objects.create(count=2, size=4)
Item.objects.create(count=7)
Item.objects.defer("count").all().delete()
next(serializers.deserialize("json", '[{"model": "shop.item", "pk": 50, "fields": {"count": 1}}]')).save()
Item.objects.create(id=51)
"""
CAPTURED = """
import json
from django.db import connection, transaction
from topics_client.django import captured_events, emit
with captured_events() as events:
    emit("t", 1)
    with transaction.atomic():
        emit("t", 2, tag="x")
        try:
            with transaction.atomic():
                emit("t", 3)
                raise ValueError
        except ValueError:
            pass
        print(json.dumps([event.data for event in events]))
        transaction.set_rollback(True)
    emit("u", 4)
    try:
        emit("u", object())
    except (TypeError, NotImplementedError):
        pass
    transaction.set_autocommit(False)
    emit("v", 5)
    connection.commit()
    transaction.set_autocommit(True)
print(json.dumps([(event.topic, event.data) for event in events]))
"""
# The machine has no free thread for the second hand of the jobs.
NO_THREAD = """
import threading
from topics_client.django.consume import run
from topics_client.django.handlers import handlers
begin, begun = threading.Thread.start, []
def start(thread):
    begun.append(thread.name)
    if begun.count("jobs") == 2:
        raise RuntimeError("can't start new thread")
    begin(thread)
threading.Thread.start = start
run(handlers.values())
"""
STUCK = """
import os, signal, time
from topics_client.django.consume import run
from topics_client.django.handlers import Handler
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell without job control ignores SIGINT for its programs
def work(job):
    os.write(1, b"begins\\n")
    while signal.getsignal(signal.SIGINT) != signal.default_int_handler:
        time.sleep(0.01)
    os.write(1, b"is stuck\\n")
    time.sleep(3_600)
run([Handler(work, "stuck")])
"""


class Shop:
    def __init__(self, instance: Instance) -> None:
        self.instance, self.api = instance, Api(instance.port)
        url = urlsplit(instance.servers.database_url)
        (host,), (port,) = (parse_qs(url.query)[name] for name in ("host", "port"))
        database = {"ENGINE": "django.db.backends.postgresql", "NAME": url.path[1:], "USER": url.username}
        database |= {"PASSWORD": url.password, "HOST": host, "PORT": port, "OPTIONS": {"options": "-csearch_path=shop"}}
        path = os.pathsep.join(map(str, (FOLDER, ROOT / "clients" / "python")))
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.environment = {
            **kept, "PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "settings", "DB": json.dumps(database)
        }  # fmt: skip

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "django", *arguments]

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment | settings
        return subprocess.run(
            self.command(*arguments), env=environment, capture_output=True, text=True, timeout=DEADLINE
        )

    def shell(self, code: str, **settings: str) -> str:
        done = self.run("shell", "--command", code, **settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def consume(self, **settings: str) -> subprocess.Popen[bytes]:
        environment = self.environment | settings
        return subprocess.Popen(self.command("topics_consume"), env=environment, stderr=subprocess.DEVNULL)

    def page(self, **settings: str) -> tuple[list[int], dict[str, list[Any]], str]:
        """The page of handlers: its status for a guest and for an operator, what it tells of each handler, and its HTML."""
        statuses, told, html = json.loads(self.shell(PAGE, **settings).splitlines()[-1])
        return statuses, told, html

    def errors(self) -> list[str]:
        with self.instance.connect() as session:
            rows = session.execute("SELECT error FROM shop.topics_client_handlerstate WHERE seen_at IS NOT NULL")
            return [error for (error,) in rows]

    def seen(self, what: str) -> list[int]:
        with self.instance.connect() as session:
            rows = session.execute("SELECT number FROM shop.shop_seen WHERE what = %s ORDER BY id", [what])
            return [number for (number,) in rows]

    def read(self, topic: str) -> list[dict[str, Any]]:
        read: list[dict[str, Any]] = self.api.call("POST", f"/v0/topics/{topic}/diff", {"include_tags": True}).body[
            "records"
        ]
        return read


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with start(TOPICS_PROCESSES="worker") as instance:
        with instance.connect() as session:
            session.execute("CREATE SCHEMA shop")
        made = Shop(instance)
        migrated = made.run("migrate", "--run-syncdb", "--skip-checks")  # no topics yet
        assert migrated.returncode == 0, migrated.stderr
        yield made


def test_a_model_tells_its_changes_if_they_are_committed(shop: Shop) -> None:
    *refused, kept = shop.shell(EVENTS).splitlines()[-3:]
    assert (
        refused == ["the row is in the database 'other', and its event would be in 'default': set TOPICS_DATABASE"] * 2
    )
    assert kept == "1"
    until(lambda: shop.api.call("GET", "/v0/topics/orders").body.get("head_seq", 0) >= 6, "the events")
    told = [(record["$tag"], record["data"]["op"], record["data"]["data"]) for record in shop.read("orders")]
    row = {"id": 1, "placed_at": "2026-11-27T00:00:00Z"}
    assert told == [
        ("1", "created", row | {"total": "19.90"}),
        ("1", "updated", row | {"total": "7.5"}),
        ("1", "deleted", row | {"total": "7.50"}),
        ("3", "created", {"id": 3, "placed_at": None, "total": "2"}),
        ("3", "deleted", {"id": 3, "placed_at": None, "total": "2.00"}),
        ("4", "created", {"id": 4, "placed_at": None, "total": "3"}),
    ]


def test_an_event_tells_the_row_as_it_is_stored(shop: Shop) -> None:
    """Whatever the instance holds, whichever way it is saved, and once for the rows of several tables."""
    assert shop.shell(STORED).splitlines()[-1] == "9"
    until(lambda: shop.api.call("GET", "/v0/topics/items").body.get("head_seq", 0) >= 14, "the events")
    told = [(record["$tag"], record["data"]["op"], record["data"]["data"]) for record in shop.read("items")]

    def row(id: int, count: int, name: str = "", **more: int) -> dict[str, Any]:
        return {"id": id, "count": count, "name": name, "twice": 2 * count, **more}

    assert told == [
        ("1", "created", row(1, 1)),
        ("1", "updated", row(1, 1, "tea")),
        ("1", "updated", row(1, 2, "tea")),
        ("1", "updated", row(1, 5, "pot")),
        ("1", "updated", row(1, 5, "pot")),
        ("1", "deleted", row(1, 5, "pot")),
        ("2", "created", row(2, 2, item_ptr_id=2, size=3)),
        ("2", "updated", row(2, 2, item_ptr_id=2, size=3)),
        ("2", "deleted", row(2, 2, item_ptr_id=2, size=3)),
        ("3", "created", row(3, 2, item_ptr_id=3, size=4)),
        ("4", "created", row(4, 7)),
        ("3", "deleted", row(3, 2, item_ptr_id=3, size=4)),
        ("4", "deleted", row(4, 7)),
        ("51", "created", row(51, 0)),
    ]


def test_captured_events_are_those_that_would_be_committed(shop: Shop) -> None:
    inside, after = map(json.loads, shop.shell(CAPTURED).splitlines()[-2:])
    assert inside == [1, 2]
    assert after == [["t", 1], ["u", 4], ["v", 5]]
    assert shop.api.call("GET", "/v0/topics/t").status == 404


def test_rows_change_once_for_each_record_and_job_although_handlers_are_killed(shop: Shop) -> None:
    count = 200
    shop.api.call("PUT", "/v0/topics/jobs", {"type": "queue"})
    shop.api.append("numbers", *range(count))
    shop.api.append("jobs", *range(count))
    done = [shop.consume() for _ in range(2)]
    for enough in (20, 80):
        until(lambda enough=enough: len(shop.seen("job")) > enough, "some jobs")  # type: ignore[misc]
        killed = done.pop(0)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        done.append(shop.consume())
    until(lambda: len(shop.seen("record")) >= count and len(shop.seen("job")) >= count, "all records and jobs")
    for process in done:
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
    assert shop.seen("record") == list(range(count))
    assert sorted(shop.seen("job")) == list(range(count))


def test_over_http_a_handler_gets_the_same(shop: Shop) -> None:
    shop.api.append("jobs", 1000)
    shop.api.append("numbers", 1000)
    process = shop.consume(TOPICS_URL=shop.instance.url)
    try:
        until(lambda: 1000 in shop.seen("job") and 1000 in shop.seen("record"), "the job and the record")
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()


def test_an_error_ends_the_process_when_its_handlers_have_ended(shop: Shop) -> None:
    shop.api.call("PUT", "/v0/topics/jobs", {"type": "queue"})
    shop.api.append("jobs", *range(2000, 2100))
    done = shop.run("shell", "--command", NO_THREAD)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "RuntimeError: can't start new thread"
    queue = shop.api.done("GET", "/v0/topics/jobs")["queue"]
    assert queue["in_flight"] == 0


def test_a_second_signal_ends_a_process_with_a_stuck_job(shop: Shop) -> None:
    shop.api.call("PUT", "/v0/topics/stuck", {"type": "queue"})
    shop.api.append("stuck", 1)
    command = shop.command("shell", "--command", STUCK)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with child_process(command, env=shop.environment, **pipes) as process:
        for said in (b"begins\n", b"is stuck\n"):
            assert process.stdout.readline() == said  # type: ignore[union-attr]
            process.send_signal(signal.SIGINT)
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize("over_http", [False, True])
def test_the_admin_shows_each_handler_with_its_lag_and_its_last_error(shop: Shop, over_http: bool) -> None:
    settings = {"TOPICS_URL": shop.instance.url} if over_http else {}
    wrong = "ValueError: Field 'number' expected a number but got 'no number'."
    for topic in ("numbers", "jobs"):
        shop.api.call("DELETE", f"/v0/topics/{topic}")
    with shop.instance.connect() as session:
        session.execute("DELETE FROM shop.topics_client_handlerstate")
    shop.api.call("PUT", "/v0/topics/jobs", {"type": "queue"})
    shop.api.append("jobs", "no number", "no number")
    statuses, told, html = shop.page(**settings)
    assert statuses == [403, 200]
    assert told["jobs"] == [2, True, "", False]
    assert told["numbers:tally"][0] is None
    assert told["numbers:tally"][2].startswith("topic 'numbers' does not exist")
    assert html.count("never ran") == 2

    shop.api.append("numbers", "no number", 1)
    process = shop.consume(**settings)
    try:
        until(lambda: shop.errors() == [wrong, wrong], "both errors")
        _, told, html = shop.page(**settings)
    finally:
        process.kill()
        process.wait()
    waiting, *rest = told["numbers:tally"]
    assert waiting >= 2
    assert rest == [True, "", True]
    assert told["jobs"][2:] == ["", True]
    assert html.count("ago: ValueError: Field &#x27;number&#x27; expected a number") == 2


def test_checks_name_what_is_missing(shop: Shop) -> None:
    shop.api.call("PUT", "/v0/topics/numbers", {})
    shop.api.call("PUT", "/v0/topics/jobs", {"type": "queue"})
    check = "check", "--database", "default", "--fail-level", "WARNING"
    assert shop.run(*check).returncode == 0
    shop.api.call("DELETE", "/v0/topics/jobs")
    done = shop.run(*check)
    assert done.returncode == 1
    assert "The handler of jobs cannot work: topic 'jobs' does not exist" in done.stderr
    assert "topics_client.W001" in done.stderr
    assert shop.run("migrate").returncode == 0
    wrong = shop.run("check", TOPICS_URL="ftp://x")
    assert wrong.returncode == 1
    assert "expected http://host:4000" in wrong.stderr
    unknown = shop.run("topics_consume", "numbers:tale")
    assert unknown.returncode == 1
    assert unknown.stderr == "CommandError: no handler numbers:tale: expected some of jobs, numbers:tally.\n"
