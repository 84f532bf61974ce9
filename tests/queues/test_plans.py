"""A claim and an ack touch rows of their own jobs only, however many jobs are ready, in flight or done (tests/plans.py).

The console's page of the queue touches only the rows that the page shows or counts.
"""

from __future__ import annotations

import msgspec
import pytest
from django.db import connection
from django.test import Client

from base.clock import now_ms
from queues import figures
from queues.claim import claim
from queues.counts import count_jobs
from queues.settle import Ack, Extend, Nack, holding, settle
from queues.work import STILL_HELD
from store.script import run
from tests.admin.conftest import browser
from tests.plans import FILL_HOME, RECORDS, believing, check, make, rolled_back, topics
from tests.scripts import look_up, put_topic
from topics.config import Config

__all__ = ["browser", "rolled_back", "topics"]
NOW = now_ms()  # the page reads the clock
pytestmark = [pytest.mark.deep(42), pytest.mark.usefixtures("rolled_back")]
IN_FLIGHT, DONE = RECORDS // 2, RECORDS // 4
# The first quarter of the jobs is done, the second and third are in flight, and a few leases ended. The rest is ready.
FILL = """
UPDATE topics_topic SET type = 'queue' WHERE id = %(id)s;
UPDATE topics_record SET deleted = true WHERE topic_id = %(id)s AND seq > 1 AND seq <= %(done)s;
UPDATE topics_topichead SET holes_seq = %(done)s, count = count - %(done)s + 1 WHERE topic_id = %(id)s;
INSERT INTO queues_queue VALUES (%(id)s, false, %(done)s + %(in_flight)s, 0, %(in_flight)s, 0, %(now)s - 5000, %(now)s, 0);
INSERT INTO queues_lease (topic_id, seq, durable, node, id, deadline, deliveries)
SELECT %(id)s, n, false, 'w', gen_random_uuid(), %(now)s + 3600000 + n, 1
  FROM generate_series(%(done)s + 1, %(done)s + %(in_flight)s) n;
UPDATE queues_lease SET deadline = %(now)s - 100 + seq %% 50 WHERE topic_id = %(id)s AND seq > %(done)s AND seq <= %(done)s + 20
"""

DEAD = 20_000
LETTERS = """
UPDATE topics_record_logged SET meta = '{"$dead_letter_from":"jobs","$dead_letter_error":"exit code 1"}' WHERE topic_id = %(id)s
"""


def fill() -> dict[str, int]:
    jobs = make("jobs", f"{FILL_HOME};{FILL}", now=NOW, done=DONE, in_flight=IN_FLIGHT)
    put_topic("jobs", Config(type="queue", dead_letter="jobs:dead"), NOW)
    return {"jobs": jobs, "dead": make("jobs:dead", f"{FILL_HOME};{LETTERS}", now=NOW, records=DEAD)}


@believing("of nothing", "of one topic", "of emptied tables", "good")
def test_the_figures_of_all_queues_touch_the_rows_of_queues(topics: dict[str, int]) -> None:
    """Not the 3,000 other topics, nor the jobs."""
    for _ in range(7):  # PostgreSQL may take one plan for all values from the sixth call on
        check(60, lambda: run(figures.largest(1000, NOW)))
        check(60, lambda: run(figures.named(run(figures.following("", "~", 100)), NOW)))
        check(30, lambda: run(figures.dead_letters(8)))


@believing("of nothing", "of one topic", "of emptied tables", "good")
def test_a_scrape_reads_few_pages_of_queues_at_rest(topics: dict[str, int]) -> None:
    """Each first job is read once, and then a page has the heads of several queues."""
    with connection.cursor() as cursor:
        cursor.execute(MAKE_QUEUES, {"now": NOW})
    assert len(run(figures.largest(QUEUES, NOW))) == QUEUES
    pages = (
        3 if connection.pg_version >= 170_000 else 12
    ) * QUEUES  # before 17, each id of a list is a look-up of its own
    for _ in range(7):
        check(5 * QUEUES, lambda: run(figures.largest(QUEUES, NOW)), pages=pages)


LONG_MS = 432_000_000  # PostgreSQL's clock is later than NOW, by the time that this run has taken
QUEUES = 1000  # of them half have jobs, in a tenth of which the jobs wait
MAKE_QUEUES = """
UPDATE topics_topic SET type = 'queue' WHERE name ~ '^other[0-9]{1,3}$' OR name = 'other1000';
UPDATE topics_topichead SET head_seq = 5, count = 5 FROM topics_topic t
 WHERE t.id = topic_id AND t.type = 'queue' AND t.name ^@ 'other' AND t.id %% 2 = 0;
UPDATE topics_record_volatile SET ts = %(now)s - CASE WHEN topic_id %% 20 = 0 THEN 864000000 ELSE 0 END
"""


@believing("of nothing", "of one topic", "of emptied tables", "good")
def test_a_look_for_waiting_jobs_touches_the_queues_that_it_judges(topics: dict[str, int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(MAKE_QUEUES, {"now": NOW})
    everything = figures.WaitingQueues(LONG_MS, most=QUEUES + 10)
    for _ in range(7):
        check(8 * QUEUES, lambda: run(everything.look(NOW)))
        assert len(everything.known) == QUEUES // 20
    a_part = figures.WaitingQueues(LONG_MS, most=100)
    for _ in range(7):
        check(6 * 100 + 6 * len(a_part.known) + 60, lambda: run(a_part.look(NOW)))


@believing("of nothing", "of one topic", "of emptied tables", "good")
def test_each_call_touches_the_rows_of_its_own_jobs(topics: dict[str, int]) -> None:
    look_up("jobs")
    ended = range(DONE + 1, DONE + 11)
    found = run(claim("jobs", "a", 10, 1000, NOW, NOW))
    assert len(set(found.seqs) & set(range(DONE + 1, DONE + 21))) == len(ended)
    check(150, lambda: run(claim("jobs", "a", 20, 1000, NOW, NOW)))
    held = holding("a", found.seqs, None)
    check(40, lambda: run(settle(Extend, "jobs", held, (2000,), NOW, NOW)))
    check(40, lambda: run(settle(Nack, "jobs", holding("a", found.seqs[:5], None), (500, None), NOW, NOW)))
    check(90, lambda: run(settle(Ack, "jobs", holding("a", found.seqs[5:], None), (), NOW, NOW)))
    check(10, lambda: run(count_jobs(look_up("jobs"), NOW, NOW)))


@believing("of nothing", "of one topic", "of emptied tables", "good")
def test_a_claim_that_the_limit_of_bytes_cuts_touches_the_jobs_that_it_leaves(
    topics: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queues.claim.MAX_BYTES", 100)
    look_up("jobs")
    assert len(run(claim("jobs", "a", 20, 1000, NOW, NOW)).seqs) == 10
    check(150, lambda: run(claim("jobs", "a", 20, 1000, NOW, NOW)))


@believing("of nothing", "of one topic", "of emptied tables", "good")
def test_a_claim_touches_few_of_many_leases_that_ended(topics: dict[str, int]) -> None:
    look_up("jobs")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE queues_lease SET deadline = %s - 1000 + seq %% 7 WHERE topic_id = %s", [NOW, topics["jobs"]]
        )
    check(150, lambda: run(claim("jobs", "a", 20, 1000, NOW, NOW)))


@believing("of nothing", "of one topic", "of emptied tables", "good")
def test_a_stream_looks_at_the_leases_that_it_holds(topics: dict[str, int]) -> None:
    look_up("jobs")
    found = run(claim("jobs", "a", 10, 60_000, NOW))
    ids = [msgspec.json.decode(job)["lease_id"].removeprefix("lease_") for job in found.jobs]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        cursor.execute("SET LOCAL enable_seqscan = off")
        check(20, lambda: cursor.execute(STILL_HELD, [topics["jobs"], found.seqs, ids]))
        assert len(cursor.fetchall()) == len(found.seqs)


@believing("of nothing", "of one topic", "good")
def test_the_page_touches_the_rows_that_it_shows(topics: dict[str, int], browser: Client) -> None:
    def look() -> None:
        page = browser.get("/admin/topic/jobs/queue/").content.decode()
        assert f"{IN_FLIGHT:,} jobs are in flight" in page
        assert "Yes, drop 1,000" in page

    check(1200, look)
