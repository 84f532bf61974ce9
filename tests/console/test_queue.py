"""A queue's page: its figures, who holds which job, its dead letters, and their way back."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from django.test import Client

from base.clock import now_ms
from console import live
from queues.claim import claim
from queues.settle import Nack, holding, settle
from store.script import run
from tests.admin.pages import text
from tests.scripts import append, put_topic
from topics.config import Config
from topics.models import AuditEntry, Topic
from topics.records import Append, NewRecord, check_rows

EVIL = "<script>alert(1)</script>"
PAGE = "/admin/topic/mails/queue/"


@pytest.fixture
def mails(db: None) -> None:
    """A queue with a dead letter, a job in flight and a ready job."""
    config = Config(type="queue", max_deliveries=1, dead_letter="mails:dead")
    wanted = Append([NewRecord(msgspec.Raw(b"1")) for _ in range(3)], config=config)
    append("mails", wanted, check_rows(wanted), now_ms())
    held = run(claim("mails", "worker-1", 1, None, now_ms()))
    leases = [msgspec.json.decode(job)["lease_id"] for job in held.jobs]
    run(settle(Nack, "mails", holding("worker-1", held.seqs, leases), (0, f"exit code 1 {EVIL}"), now_ms()))
    run(claim("mails", "worker-2", 1, None, now_ms()))


def figures(page: str) -> list[str]:
    return text(page.partition("<h2>Jobs</h2>")[2].partition("</section>")[0]).split()


def test_it_shows_jobs_workers_and_dead_letters(browser: Client, mails: None) -> None:
    page = browser.get(PAGE).content.decode()
    assert figures(page)[:2] == ["Ready", "1"]
    assert "In flight 1" in " ".join(figures(page))
    flying = text(page.partition("<h2>In flight</h2>")[2].partition("</section>")[0])
    assert "worker-2" in flying
    letters = page.partition("<h2>Dead letters</h2>")[2]
    assert "exit code 1" in letters
    assert EVIL not in page
    assert "Send 1 back to the queue" in text(letters)
    assert 'aria-current="page">Jobs</a>' in page
    assert "/queue/" in browser.get("/admin/topic/mails/").content.decode()


def test_the_figures_and_the_jobs_in_flight_are_live(browser: Client, mails: None) -> None:
    assert 'data-live="queue/mails"' in browser.get(PAGE).content.decode()
    run(claim("mails", "worker-3", 1, None, now_ms()))
    drawn = live.PARTS["queue"].render("mails")
    assert figures(drawn)[:2] == ["Ready", "0"]
    assert "worker-3" in drawn


def through(page: str) -> str:
    """Returns the last counted seq, as the form sends it."""
    return re.findall(r'name="through" value="(\d+)"', page)[0]


def bury(*queues: str) -> None:
    """Appends a dead letter of each of these queues."""
    metas = [msgspec.Raw(b'{"$dead_letter_from":"%b"}' % each.encode()) for each in queues]
    wanted = Append([NewRecord(msgspec.Raw(b"1"), meta=meta) for meta in metas])
    append("mails:dead", wanted, check_rows(wanted), now_ms())


def left() -> int:
    return Topic.objects.select_related("head").get(name="mails:dead").head.count


def test_a_button_sends_the_counted_dead_letters_back(browser: Client, mails: None) -> None:
    counted = {"action": "redrive", "through": through(browser.get(PAGE).content.decode())}
    bury("mails")  # after the count
    page = browser.post(PAGE, counted, follow=True).content.decode()
    assert "Sent 1 dead letter back to the queue." in text(page)
    assert "Send 1 back to the queue" in text(page)
    assert figures(page)[:2] == ["Ready", "2"]
    entry = AuditEntry.objects.get(action="redrive")
    assert (entry.name, entry.after) == ("mails:dead", {"queue": "mails", "moved": 1})


def test_a_button_drops_the_counted_dead_letters(browser: Client, mails: None) -> None:
    bury("others", "mails")
    page = browser.get(PAGE).content.decode()
    assert "Yes, drop 2" in text(page)
    bury("mails")  # after the count
    page = browser.post(PAGE, {"action": "drop", "through": through(page)}, follow=True).content.decode()
    assert "Dropped 2 dead letters." in text(page)
    assert "Yes, drop 1" in text(page)
    assert (left(), figures(page)[:2]) == (2, ["Ready", "1"])
    entry = AuditEntry.objects.get(action="delete", kind="records")
    assert (entry.name, entry.after) == ("mails:dead", {"queue": "mails", "deleted": 2})


def test_letters_behind_many_of_other_queues_have_a_page(browser: Client, mails: None) -> None:
    bury(*["others"] * 1000, "mails")
    assert "Yes, drop 1" in text(browser.get(PAGE).content.decode())
    page = browser.get(f"{PAGE}?after=1").content.decode()
    assert "No dead letter of this queue is there from seq 2 to seq 1,001 of mails:dead" in text(page)
    (following,) = re.findall(r'href="(\?after=\d+)"', page)
    page = browser.get(PAGE + following).content.decode()
    done = browser.post(PAGE + following, {"action": "drop", "through": through(page)}, follow=True)
    assert "Dropped 1 dead letter." in text(done.content.decode())
    assert left() == 1001


def test_a_viewer_changes_no_dead_letter(viewer: Client, mails: None) -> None:
    page = viewer.get(PAGE).content.decode()
    assert "back to the queue" not in page
    assert "drop" not in page.partition("<h2>Dead letters</h2>")[2]
    for action in ("redrive", "drop"):
        assert viewer.post(PAGE, {"action": action, "through": "9"}).status_code == 403
    assert left() == 1


@pytest.mark.parametrize("form", [{}, {"action": "drop"}, {"action": "x", "through": "1"}, {"through": "1"}])
def test_an_incomplete_form_changes_nothing(browser: Client, mails: None, form: dict[str, str]) -> None:
    assert browser.post(PAGE, form).status_code == 400
    assert left() == 1


def test_a_form_of_another_site_changes_nothing(browser: Client, mails: None) -> None:
    browser.handler.enforce_csrf_checks = True
    assert browser.post(PAGE, {"action": "drop", "through": "9"}).status_code == 403
    assert left() == 1


def test_a_sealed_dead_letter_topic_keeps_its_letters(browser: Client, mails: None) -> None:
    put_topic("mails:dead", Config(sealed=True), now_ms())
    page = browser.get(PAGE).content.decode()
    assert "is sealed" in text(page)
    page = browser.post(PAGE, {"action": "drop", "through": "9"}, follow=True).content.decode()
    assert "is sealed" in text(page.partition("messagelist")[2].partition("</ul>")[0])
    assert left() == 1


def test_a_log_has_no_such_page(browser: Client, mails: None, queries: Any) -> None:
    assert browser.get("/admin/topic/mails:dead/queue/").status_code == 404
    assert "/queue/" not in browser.get("/admin/topic/mails:dead/").content.decode()
