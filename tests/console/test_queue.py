"""A queue's page: its figures, who holds which job, its dead letters, and their way back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.test import Client

from base.clock import now_ms
from queues.claim import claim
from queues.settle import Nack, holding, settle
from store.script import run
from tests.admin.pages import text
from tests.scripts import append
from topics.config import Config
from topics.models import AuditEntry
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


def test_a_button_sends_the_dead_letters_back(browser: Client, mails: None) -> None:
    page = browser.post(PAGE, follow=True).content.decode()
    assert "Sent 1 dead letter back to the queue." in text(page)
    assert "No dead letter of this queue is there." in text(page)
    assert figures(page)[:2] == ["Ready", "2"]
    entry = AuditEntry.objects.get(action="redrive")
    assert (entry.name, entry.after) == ("mails:dead", {"queue": "mails", "moved": 1})


def test_a_viewer_sends_nothing_back(viewer: Client, mails: None) -> None:
    assert "Send 1 back" not in viewer.get(PAGE).content.decode()
    assert viewer.post(PAGE).status_code == 403
    assert not AuditEntry.objects.filter(action="redrive").exists()


def test_a_log_has_no_such_page(browser: Client, mails: None, queries: Any) -> None:
    assert browser.get("/admin/topic/mails:dead/queue/").status_code == 404
    assert "/queue/" not in browser.get("/admin/topic/mails:dead/").content.decode()
