"""A queue's page: its figures, who holds which job, its dead letters, and their way back."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.test import Client

from base.clock import now_ms
from console.health import problems
from console.live import live
from queues import figures
from queues.claim import claim
from queues.settle import Nack, holding, settle
from store.script import run
from tests.admin.pages import text
from tests.scripts import append, put_topic
from topics.append.records import Append, NewRecord, check_rows, columns
from topics.config import Config
from topics.models import AuditEntry, Topic

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


def shown(page: str) -> list[str]:
    return text(page.partition("<h2>Jobs</h2>")[2].partition("</section>")[0]).split()


def test_it_shows_jobs_workers_and_dead_letters(browser: Client, mails: None) -> None:
    page = browser.get(PAGE).content.decode()
    assert shown(page)[:2] == ["Ready", "1"]
    assert "In flight 1" in " ".join(shown(page))
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
    assert shown(drawn)[:2] == ["Ready", "0"]
    assert "worker-3" in drawn


def through(page: str) -> str:
    """Returns the last counted seq, as the form sends it."""
    return re.findall(r'name="through" value="(\d+)"', page)[0]


def bury(*queues: str) -> None:
    """Appends a dead letter of each of these queues."""
    metas = [msgspec.Raw(b'{"$dead_letter_from":"%b"}' % each.encode()) for each in queues]
    wanted = Append([NewRecord(msgspec.Raw(b"1"), meta=meta) for meta in metas])
    append("mails:dead", wanted, columns(wanted.records, None, is_copy=True), now_ms())


def left() -> int:
    return Topic.objects.select_related("head").get(name="mails:dead").head.count


def test_a_button_sends_the_counted_dead_letters_back(browser: Client, mails: None) -> None:
    counted = {"action": "redrive", "through": through(browser.get(PAGE).content.decode())}
    bury("mails")  # after the count
    page = browser.post(PAGE, counted, follow=True).content.decode()
    assert "Sent 1 dead letter back to the queue." in text(page)
    assert "Send 1 back to the queue" in text(page)
    assert shown(page)[:2] == ["Ready", "2"]
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
    assert (left(), shown(page)[:2]) == (2, ["Ready", "1"])
    entry = AuditEntry.objects.get(action="delete", kind="records")
    assert (entry.name, entry.after) == ("mails:dead", {"queue": "mails", "deleted": 2})


def test_a_letter_with_a_number_that_python_has_not_is_shown(browser: Client, mails: None) -> None:
    meta = b'{"x":1e400,"$dead_letter_from":"mails","$dead_letter_src_seq":17,"$dead_letter_error":"exit code 9"}'
    wanted = Append([NewRecord(msgspec.Raw(b"1"), meta=msgspec.Raw(meta))])
    append("mails:dead", wanted, columns(wanted.records, None, is_copy=True), now_ms())
    letters = text(browser.get(PAGE).content.decode().partition("<h2>Dead letters</h2>")[2])
    assert "17" in letters
    assert "exit code 9" in letters


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


def rows(page: str) -> list[list[str]]:
    """The cells of the page's list."""
    found = page.partition("data-list")[2].partition("<tbody>")[2].partition("</tbody>")[0].split("<tr>")[1:]
    return [[text(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)] for row in found]


def test_the_page_of_all_queues(browser: Client, mails: None) -> None:
    put_topic("log", Config(), now_ms())
    page = browser.get("/admin/list/queues/").content.decode()
    assert "/admin/topic/log/" not in page
    (row,) = rows(page)
    assert (row[0], row[1], row[4], *row[7:]) == ("mails", "ready", "1", "1", "0", "1 in mails:dead")
    assert "None is so" in browser.get("/admin/list/queues/?after=mails").content.decode()


def waiting() -> list[figures.QueueFigures]:
    return run(figures.WaitingQueues(problems.READY_MS, problems.MOST_JUDGED).look(now_ms()))


def test_of_many_queues_each_is_judged_within_a_round(mails: None) -> None:
    """Also a queue of few jobs, behind queues with many."""
    for place in range(7):
        put_topic(f"q{place}", Config(type="queue"), now_ms())
        wanted = Append([NewRecord(msgspec.Raw(b"1")) for _ in range(1 if place in (1, 5) else 9)])
        append(f"q{place}", wanted, check_rows(wanted), now_ms())
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE topics_record SET ts = CASE name WHEN 'q1' THEN 1 ELSE 0 END FROM topics_topic t"
            " WHERE t.id = topic_id AND name IN ('q1', 'q5')"
        )
    judge = figures.WaitingQueues(300_000, most=2)
    seen = [[each.name for each in run(judge.look(now_ms()))] for _ in range(5)]
    assert seen == [[], ["q1"], ["q1"], ["q5", "q1"], ["q5", "q1"]]  # mails and q0, q1 and q2, q3 and q4, q5 and q6
    assert judge.after == ""
    run(claim("q1", "w", 9, None, now_ms()))
    assert [each.name for each in run(judge.look(now_ms()))] == ["q5"]
    assert [each.name for each in run(figures.WaitingQueues(300_000, most=3).round(now_ms()))] == ["q5"]


def test_the_overview_names_queues_whose_jobs_wait_and_dead_letters(browser: Client, mails: None) -> None:
    assert "Topic mails:dead holds 1 dead letter of queue mails." in text(browser.get("/admin/").content.decode())
    assert [each.text for each in problems.of_queues(now_ms(), waiting())] == [
        "Topic mails:dead holds 1 dead letter of queue mails."
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE topics_record SET ts = ts - 400000 FROM topics_topic t WHERE t.id = topic_id AND t.name = 'mails'"
        )
    waits, *_ = problems.of_queues(now_ms(), waiting())
    assert re.fullmatch(r"Queue mails has 1 ready job\. The oldest waits for .*", waits.text)
    assert (waits.level, waits.url) == ("warn", PAGE)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE queues_queue SET swept_ts = swept_ts - 400000")
    waits, *_ = problems.of_queues(now_ms(), waiting())
    assert (waits.level, waits.advice) == ("bad", "No worker claims jobs. Start one.")


def test_the_overview_names_groups_without_a_member(browser: Client, mails: None) -> None:
    put_topic("log", Config(), now_ms())
    wanted = Append([NewRecord(msgspec.Raw(b"1")) for _ in range(3)])
    append("log", wanted, check_rows(wanted), now_ms())
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO groups_group (topic_id, name, partition_by, partitions, start, created_ts)"
            " SELECT id, 'billing', 'tag', 1, 'earliest', 1 FROM topics_topic WHERE name = 'log' RETURNING id"
        )
        (group,) = cursor.fetchone()
        cursor.execute("INSERT INTO groups_share (group_id, share, seq, updated_ts) VALUES (%s, 0, 1, 1)", [group])
    (found,) = problems.of_groups(now_ms())
    assert found.text == "Group billing of log has no member and is 2 records behind."
    (row,) = rows(browser.get("/admin/list/groups/").content.decode())
    assert (*row[:3], row[4], *row[6:]) == ("billing", "alone", "2", "0", "log", "1")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO groups_member (group_id, name, session_ms, joined_ts, seen_ts) VALUES (%s, 'm', 10000, 1, %s)",
            [group, now_ms()],
        )
    assert list(problems.of_groups(now_ms())) == []
    assert "None is so" in browser.get("/admin/list/groups/?topic=log&after=billing").content.decode()
