"""The problems on the overview: jobs, queues, routers, processes. tests/push/test_overview.py has the subscribers of the bus."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from django.test import Client

from base.clock import now_ms
from console import gateways, tasks
from console.health import signals
from console.history.samples import DAY_MS
from console.models import Count, Process, Sample
from pipeline.models import Run, Schedule
from queues.due import append_due
from queues.schedules import Times, put_schedule
from routers.routers import RouterConfig
from store.script import run
from tests.admin.pages import put, text
from tests.deadlines import DEADLINE
from tests.instances import free_port, until
from tests.scripts import put_router, put_topic
from tests.threads import no_thread
from topics.append.records import NewRecord, columns
from topics.config import Config


def problems(browser: Client) -> list[str]:
    """The problems of the overview, each as one text."""
    page = browser.get("/admin/").content.decode()
    return [
        " ".join(text(found).split())
        for found in re.findall(r'<div class="need (?:bad|warn).*?</div>', page, re.DOTALL)
    ]


def problem(browser: Client, begin: str) -> str | None:
    return next((each for each in problems(browser) if each.startswith(begin)), None)


def alive(*kinds: str) -> None:
    """These processes have a heartbeat."""
    for kind in kinds:
        Process.objects.create(id=kind, kind=kind, host="h", pid=1, started_ts=now_ms() - 9000, seen_ts=now_ms())


@pytest.fixture
def stranger(settings: Any) -> Iterator[str]:
    """The address of a server that speaks no HTTP, as the only one of TOPICS_GATEWAYS."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    taken, _ = server.accept()
                except OSError:
                    return
                with taken:
                    taken.recv(65536)
                    taken.sendall(b"\x00\x00\x12\x04" + b"x" * 1000 + b"\n")

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        settings.TOPICS_GATEWAYS = [f"http://{address}"]
        yield address
        server.shutdown(socket.SHUT_RDWR)  # which ends the accept


class WellGateway(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = {"status": "ok", "configuration": "c", "configurations": ["c"], "processes": 1}
        body = msgspec.json.encode({**status, "virtual_clusters": [], "clusters": []})
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def well_gateway(port: int) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", port), WellGateway) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def ran(schedule: Schedule, state: str, started_ts: int) -> None:
    schedule.last_run = Run.objects.create(
        job=schedule.job,
        options=schedule.options,
        state=state,
        started_ts=started_ts,
        summary="the folder is read-only",
    )
    schedule.save()


def test_a_schedule_that_fails_stands_on_the_overview_since_its_first_failure(browser: Client, db: None) -> None:
    now = now_ms()
    schedule = Schedule.objects.create(job="archive", options={"topic": "orders", "out": "/a"}, next_ts=now + 60_000)
    begin = "The schedule archive of orders failed."
    assert problem(browser, begin) is None
    for state, age_ms in (("failed", 10_800_000), ("done", 7_200_000), ("failed", 3_600_000), ("failed", 60_000)):
        ran(schedule, state, now - age_ms)
    found = problem(browser, begin)
    assert found is not None
    assert "the folder is read-only" in found
    assert re.search(r"Since .* 1 h 0 min ago", found)
    assert f"/admin/pipeline/run/{schedule.last_run_id}/change/" in browser.get("/admin/").content.decode()
    ran(schedule, "done", now)
    assert problem(browser, begin) is None


@pytest.mark.parametrize(
    ("late_ms", "enabled", "told"), [(600_000, True, True), (1_000, True, False), (600_000, False, False)]
)
def test_a_schedule_that_nobody_starts_stands_on_the_overview(
    browser: Client, db: None, late_ms: int, enabled: bool, told: bool
) -> None:
    alive("worker", "beat")
    Schedule.objects.create(job="rollup", options={}, next_ts=now_ms() - late_ms, enabled=enabled)
    found = problem(browser, "The schedule rollup")
    assert (found is not None) == told
    assert found is None or re.search(r"is overdue\. .* Since .* 10 min 0 s ago", found)


def test_a_queue_that_refuses_the_jobs_of_schedules_stands_on_the_overview(browser: Client, db: None) -> None:
    now = now_ms()
    put_topic("mails", Config(type="queue", cap_records=1, discard="reject"), now)
    rows = columns([NewRecord(msgspec.Raw(b"1"))], None)
    for name in ("a", "b"):
        run(put_schedule("mails", name, Times(now - 3_600_000, None, "UTC"), rows, now - 3_600_000))
    run(put_schedule("mails", "c", Times(None, "* * * * *", "UTC"), rows, now))
    begin = "Queue mails refuses the jobs of 1 schedule."
    assert problem(browser, begin) is None
    run(append_due(now))  # a fits, b does not
    found = problem(browser, begin)
    assert found is not None
    assert "Topic &#x27;mails&#x27; has no room" in found
    assert re.search(r"Since .* 1 h 0 min ago", found)
    assert 'href="/admin/topic/mails/schedules/"' in browser.get("/admin/").content.decode()
    run(put_schedule("mails", "b", Times(None, "0 3 * * *", "UTC"), rows, now))
    assert problem(browser, begin) is None


def test_a_paused_router_stands_on_the_overview_while_records_wait(browser: Client, db: None) -> None:
    config = RouterConfig(source="orders", dest="audit", start="earliest", paused=True)
    put_router("orders->audit", config, now_ms())
    assert problem(browser, "Router") is None
    put("orders", "1", "2")
    found = problem(browser, "Router orders-&gt;audit is paused and holds up 2 records for audit.")
    assert found is not None
    assert "Since" in found
    assert "Open the router" in found


def test_a_missing_process_links_to_the_processes(browser: Client, db: None) -> None:
    found = problem(browser, "worker has no heartbeat.")
    assert found is not None
    assert "Open the processes" in found


def test_only_the_errors_of_the_last_day_stand_on_the_overview(browser: Client, db: None) -> None:
    """The count is of all time. Samples tell how large it was before."""
    begin = "In the last day"
    Count.objects.create(name="errors", value=500)
    assert problem(browser, begin) is None
    for age_ms, errors, told in ((3 * DAY_MS, 480, "20 answers"), (DAY_MS // 2, 490, "10 answers")):
        Sample.objects.create(kind="all", object_id=0, ts=now_ms() - age_ms, head_seq=0, errors=errors)
        assert (problem(browser, begin) or "").startswith(f"{begin} {told} had a status of 5xx.")


def test_an_address_that_is_no_gateway_is_one_problem(browser: Client, db: None, stranger: str) -> None:
    """What it sends is no HTTP, and can have characters that PostgreSQL does not store."""
    assert gateways.seen(wait=DEADLINE)[0].state == "silent"
    found = problem(browser, f"The gateway {stranger} does not answer.")
    assert found is not None
    assert "\ufffdxxx" in found
    assert "x" * 300 not in found
    assert "Check that it runs, and its address in TOPICS_GATEWAYS." in found


def test_a_gateway_is_asked_again_after_a_while_without_a_look(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(gateways, "LOOKED_AT_SECONDS", 0.1)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings.TOPICS_GATEWAYS = [url]
    assert gateways.seen(wait=DEADLINE)[0].state == "silent"
    until(lambda: gateways._watched[url].thread is None, "the thread of the gateway to end")
    with well_gateway(port):
        found = gateways.seen()[0]
        assert (found.state in ("asked", "ok"), found.failure) == (True, "")
        until(lambda: gateways.seen()[0].state == "ok", "the answer of the gateway")


def test_the_first_look_of_a_process_finds_a_gateway_that_says_nothing(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateways, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.TOPICS_GATEWAYS = [f"http://127.0.0.1:{server.getsockname()[1]}"]
        tasks.judge()
    assert "gateway silent" in {each.kind for each in signals.open_signals()}


def test_a_gateway_is_asked_again_after_no_thread_was_free_for_it() -> None:
    watched = gateways.WatchedGateway(f"http://127.0.0.1:{free_port()}")
    with no_thread(), pytest.raises(RuntimeError, match="can't start new thread"):
        watched.look()
    watched.look()
    assert watched.first.wait(DEADLINE)
    assert watched.seen().state == "silent"
