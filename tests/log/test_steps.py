"""A long removal in a topic with holes commits each step, so that appends need not wait for all of it (docs/concurrency.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

import topics
from base.clock import now_ms
from tests.admin.conftest import browser
from tests.plans import run
from tests.scripts import append, copy, delete_records, delete_seqs, diff, put_topic
from topics.append.copies import Copy, check_copy
from topics.append.records import Append, NewRecord, check_rows
from topics.config import Config
from topics.models import Topic
from topics.read.diff import Diff

__all__ = ["browser"]
pytestmark = pytest.mark.django_db(transaction=True)
RECORDS = 40
# What each transaction counted under the lock of the head: the rows that it passed with the floor.
WATCH = """
CREATE TABLE counted (xid xid8, rows bigint);
CREATE FUNCTION note_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO counted SELECT pg_current_xact_id(), count(*) FROM topics_record
     WHERE topic_id = NEW.topic_id AND seq > OLD.floor_seq AND seq <= NEW.floor_seq;
    RETURN NULL;
END $$;
CREATE TRIGGER note_rows AFTER UPDATE OF floor_seq ON topics_topichead FOR EACH ROW EXECUTE FUNCTION note_rows()
"""
UNWATCH = "DROP TRIGGER note_rows ON topics_topichead; DROP FUNCTION note_rows; DROP TABLE counted"
COUNTED = "SELECT sum(rows)::int FROM counted GROUP BY xid HAVING sum(rows) > 0 ORDER BY xid"


@pytest.fixture
def topic(transactional_db: None) -> Iterator[Topic]:
    """A topic with a hole at each fourth seq. A step is three entries."""
    step = Path(topics.__file__).with_name("sql").joinpath("functions/topic_step.sql").read_text()
    made, _ = put_topic("a", Config(), now_ms())
    wanted = Append([NewRecord(msgspec.Raw(b"1")) for _ in range(RECORDS)])
    append("a", wanted, check_rows(wanted), now_ms())
    delete_seqs("a", list(range(4, RECORDS + 1, 4)), now_ms())
    with connection.cursor() as cursor:
        cursor.execute(step.replace("2500", "3"))
        cursor.execute(WATCH)
        yield made
        cursor.execute(UNWATCH)
        cursor.execute(step)


def counted() -> list[int]:
    return [rows for (rows,) in run(COUNTED)]


def test_a_trim_in_the_admin(topic: Topic, browser: Client) -> None:
    url = reverse("admin:topics_topic_trim", args=[topic.pk])
    browser.post(url, {"before_seq": "21", "op": "", "tag": "", "confirmed": "yes"})
    assert counted() == 5 * [4]


def test_a_copy_of_a_topic_that_lost_records(topic: Topic) -> None:
    put_topic("a", Config(sealed=True), now_ms())
    lost = Copy(copy=True, records=[], earliest_seq=21)
    copy("a", lost, check_copy(lost, now_ms()), now_ms())
    assert counted() == 5 * [4]
    head = Topic.objects.get(name="a").head
    assert (head.floor_seq, head.count, head.cap_lost_seq) == (20, 15, 20)


@pytest.mark.parametrize("is_old", [False, True], ids=["sunk", "in front of the floor"])
@pytest.mark.usefixtures("topic")  # for the steps of three entries
def test_a_delete_passes_a_loss_that_an_empty_topic_got(is_old: bool) -> None:
    """The loss is older than the ttl. An older release left it in front of the floor."""
    empty, _ = put_topic("b", Config(ttl_ms=60_000), now_ms())
    run(f"SELECT topic_lose({empty.pk}, 30, {now_ms() - 120_000}, '{{$capture}}')")
    if is_old:
        run(f"UPDATE topics_topichead SET floor_seq = 0, capture_lost_seq = 0 WHERE topic_id = {empty.pk} RETURNING 1")
    wanted = Append([NewRecord(msgspec.Raw(b"1")) for _ in range(3)])
    append("b", wanted, check_rows(wanted), now_ms())
    assert delete_records("b", 32, None, now_ms()).deleted == 1
    assert diff("b", Diff(from_seq=0), now_ms()).lost == "capture"
    head = Topic.objects.get(name="b").head
    assert (head.floor_seq, head.count, head.capture_lost_seq) == (31, 2, 30)
