"""Hot statements find their rows by index and touch no more than they show, whatever the planner believes (tests/plans.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.db import connection

from base.names import after_prefix
from store.database import prepared
from store.script import PlannedTransaction
from store.script import run as drive
from tests.plans import (
    FILL_DEST,
    FILL_HOME,
    NOW,
    RECORDS,
    believing,
    check,
    check_planned,
    make,
    rolled_back,
    run,
    topics,
)
from tests.scripts import look_up
from topics.append.appending import LAST_KEYED
from topics.append.first import First
from topics.append.judged import AtHead, Judged
from topics.append.records import Append, NewRecord, check_rows
from topics.append.statements import MAKE_ROOM, appending
from topics.cache import forget_all
from topics.config import Creation, creating
from topics.cursors import named as cursors
from topics.cursors import updates as cursor_updates
from topics.delete import records as removal
from topics.delete.records import DELETE_SEQS
from topics.read.diff import DIFF, MATCHES
from topics.upkeep import reclaim

__all__ = ["rolled_back", "topics"]
pytestmark = [pytest.mark.deep(52), pytest.mark.usefixtures("rolled_back")]


FILL_KEYS = """
INSERT INTO topics_idempotencykey (topic_id, key, first_seq, last_seq, ts)
SELECT %(id)s, 'key ' || n, n, n, %(now)s + n FROM generate_series(1, %(records)s) n
"""


def fill() -> dict[str, int]:
    """A topic of own records, each of which had a key, and two that show them through spans of 1 and of 10,000."""
    home = make("home", FILL_HOME + ";" + FILL_KEYS)
    return {
        "home": home,
        "short": make("short", FILL_DEST, home=home, length=1),
        "long": make("long", FILL_DEST, home=home, length=10_000),
    }


def read(topic: int, from_seq: int, limit: int) -> None:
    (window,) = run(DIFF, topic, 1, from_seq, limit, None, None, None, True, True, 10**6, None)
    assert window[1] == min(limit, RECORDS - from_seq)


def find(
    topic: int, match: str | None, *, count: int, order: str = "asc", after: int = 0, nodes: list[str] | None = None
) -> None:
    """Reads 256 matches, and checks how many of them there are. A match with a * at its end is a prefix."""
    op = None if match is None else "Glob" if match.endswith("*") else "Eq"
    literal, end = match and match.rstrip("*"), match and after_prefix(match.rstrip("*"))
    arguments = (topic, 1, after, 256, nodes, op, literal, end, order, True, True, 10**6, None, 5_000)
    ((records, *_),) = run(MATCHES, *arguments)
    assert len(msgspec.json.decode(f"[{records or ''}]")) == count


CURSORS = """
INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
SELECT unnest(%s), 'named', 'c' || n, 0, 0, 0 FROM generate_series(1, 1000) n
"""


CASES: dict[str, tuple[int, Callable[[dict[str, int]], Any]]] = {
    # statement: maximum number of rows that it touches
    "diff": (270, lambda t: read(t["home"], 50_000, 256)),
    "diff at the tail": (10, lambda t: read(t["home"], RECORDS, 256)),
    "diff of short spans": (530, lambda t: read(t["short"], 50_000, 256)),
    "diff of long spans": (530, lambda t: read(t["long"], 50_000, 256)),
    "an absent tag": (5, lambda t: find(t["home"], "absent", count=0)),
    "an absent tag in short spans": (1_010, lambda t: find(t["short"], "absent", count=0)),
    "an absent tag in long spans": (30, lambda t: find(t["long"], "absent", count=0)),
    "an absent prefix": (5, lambda t: find(t["home"], "absent*", count=0)),
    "an absent prefix in long spans": (50, lambda t: find(t["long"], "absent*", count=0)),
    "a tag of one record": (5, lambda t: find(t["home"], "rare:50000", count=1)),
    "a tag of one record in long spans": (30, lambda t: find(t["long"], "rare:50000", count=1)),
    "a sparse prefix": (110, lambda t: find(t["home"], "rare:*", count=50)),
    "a sparse prefix in long spans": (160, lambda t: find(t["long"], "rare:*", count=50)),
    "a common tag": (270, lambda t: find(t["home"], "common", count=256, after=50_000)),
    "a common tag in short spans": (1_280, lambda t: find(t["short"], "common", count=256, after=50_000)),
    "a common tag in long spans": (290, lambda t: find(t["long"], "common", count=256, after=50_000)),
    "a common tag, backward": (270, lambda t: find(t["home"], "common", count=256, after=50_000, order="desc")),
    "a common tag in long spans, backward": (
        290,
        lambda t: find(t["long"], "common", count=256, after=50_000, order="desc"),
    ),
    "a common prefix": (1_300, lambda t: find(t["home"], "comm*", count=256)),
    "a common prefix in long spans": (1_350, lambda t: find(t["long"], "comm*", count=256)),
    "a tag of a node": (5_010, lambda t: find(t["home"], "common", count=0, nodes=["n"])),
    "records of other nodes": (5_010, lambda t: find(t["home"], None, count=0, nodes=["n"])),
    "records of other nodes in short spans": (2_020, lambda t: find(t["short"], None, count=0, nodes=["n"])),
    "records of other nodes in long spans": (5_030, lambda t: find(t["long"], None, count=0, nodes=["n"])),
    "the last records": (270, lambda t: find(t["home"], None, count=256, order="tail")),
    "the last records of short spans": (1_280, lambda t: find(t["short"], None, count=256, order="tail")),
    "the last records of long spans": (290, lambda t: find(t["long"], None, count=256, order="tail")),
    "seq at a time": (60, lambda t: run("SELECT topic_seq_at(%s, 0, %s, %s)", t["home"], RECORDS, NOW + 70_000)),
    "seq at a time, spans": (
        60,
        lambda t: run("SELECT topic_seq_at(%s, 0, %s, %s)", t["short"], RECORDS, NOW + 70_000),
    ),
    "before_seq": (10, lambda t: run("SELECT topic_trim(%s, 90000, 'delete')", t["home"])),
    "before_seq in long spans": (60, lambda t: run("SELECT topic_trim(%s, 85000, 'delete')", t["long"])),
    "expire": (70, lambda t: run("SELECT topic_expire(%s, %s)", t["home"], NOW + 80_000)),
    "expire nothing": (10, lambda t: run("SELECT topic_expire(%s, %s)", t["home"], NOW)),
    "evict by count": (20, lambda t: run("SELECT topic_evict(%s, %s, 0)", t["home"], RECORDS - 3)),
    "evict by bytes": (70, lambda t: run("SELECT topic_evict(%s, 0, %s)", t["home"], RECORDS * 10 - 35)),
    "make room by count": (20, lambda t: make_room(t["home"], cap_records=RECORDS - 64)),
    "make room by bytes": (100, lambda t: make_room(t["home"], cap_bytes=RECORDS * 10 - 635)),
    "make room by many bytes": (180, lambda t: make_room(t["home"], cap_bytes=RECORDS * 4)),
    "make room by count under a ttl": (20, lambda t: make_room(t["home"], NOW, cap_records=RECORDS - 64)),
    "evict short spans": (150, lambda t: run("SELECT topic_evict(%s, %s, 0)", t["short"], RECORDS - 3)),
    "evict short spans by bytes": (150, lambda t: run("SELECT topic_evict(%s, 0, %s)", t["short"], RECORDS * 10 - 35)),
    "evict long spans": (60, lambda t: run("SELECT topic_evict(%s, %s, 0)", t["long"], RECORDS - 3)),
    "delete by tag": (30, lambda t: delete(t["home"], "Eq", "rare:4000", None)),
    "delete by prefix": (400, lambda t: delete(t["home"], "Glob", "rare:", "rare;")),
    "delete by tag in long spans": (80, lambda t: delete(t["long"], "Eq", "rare:4000", None)),
    "delete by prefix in long spans": (600, lambda t: delete(t["long"], "Glob", "rare:", "rare;")),
    "delete by seqs": (80, lambda t: run(DELETE_SEQS, t["home"], 1, [9, 50_000, 60_000, 99_999], None)),
    "delete by seqs in long spans": (80, lambda t: run(DELETE_SEQS, t["long"], 1, [9, 50_000, 60_000, 99_999], None)),
    "reclaim": (16_000, lambda t: forget_and_reclaim(t["home"])),
    "topic_log_range": (1_000, lambda t: run("SELECT * FROM topic_log_range('home', 501, 700)")),
    "topic_log_range of short spans": (1_000, lambda t: run("SELECT * FROM topic_log_range('short', 50001, 50200)")),
    "topic_log_range of long spans": (1_000, lambda t: run("SELECT * FROM topic_log_range('long', 50001, 50200)")),
}


def make_room(topic: int, expired_ts: int | None = None, **caps: int) -> None:
    """Makes room in a topic of volatile records, as far as its head tells."""
    run(
        "UPDATE topics_topichead SET holes_seq = head_seq, volatile_seq = head_seq WHERE topic_id = %s RETURNING 1",
        topic,
    )
    appended = {"records": RECORDS, "bytes": RECORDS * 10}
    wanted = {"id": topic, "version": 1, "expired_ts": expired_ts, "cap_records": 0, "cap_bytes": 0} | appended | caps
    with connection.cursor() as cursor:
        cursor.execute(MAKE_ROOM, wanted)
        cursor.execute(
            "SELECT count = head_seq - floor_seq AND floor_seq > 0 FROM topics_topichead WHERE topic_id = %s", [topic]
        )
        assert cursor.fetchone() == (True,)


def delete(topic: int, op: str, tag: str, end: str | None) -> None:
    assert run("SELECT topic_delete_match(%s, 1, NULL, %s, %s, %s, NULL)", topic, op, tag, end)[0][0] > 0


def forget_and_reclaim(topic: int) -> None:
    run("SELECT topic_trim(%s, 50000, 'delete')", topic)
    run("DELETE FROM topics_span WHERE home_id = %s AND home_last_seq = 3 RETURNING 1", topic)
    reclaim.reclaim(topic, NOW)


@pytest.mark.parametrize("what", CASES)
@believing("never", "of one record a topic", "of one topic", "good")
def test_it_goes_by_index(topics: dict[str, int], what: str) -> None:
    if what == "a common tag in short spans" and connection.pg_version < 180_000:
        pytest.skip("before version 18, a comparison of rows ends no scan: it reads on to the last record of the tag")
    most, work = CASES[what]
    check_planned(most, lambda: work(topics))


@pytest.mark.parametrize(
    "what", [what for what in CASES if what.startswith(("diff", "a ", "an ", "the last", "reclaim", "delete by seqs"))]
)
@believing("of emptied tables")
def test_the_hottest_hold_when_all_plans_seem_to_cost_the_same(topics: dict[str, int], what: str) -> None:
    """As long as tables seem empty, which is until autovacuum looks at them again."""
    most, work = CASES[what]
    check_planned(most, lambda: work(topics))


@believing("never", "of one record a topic", "of one topic", "of emptied tables", "good")
def test_a_page_of_cursors_touches_the_cursors_that_it_shows(topics: dict[str, int]) -> None:
    """Of a thousand cursors, each with the time of its next record."""
    with connection.cursor() as cursor:
        cursor.execute(CURSORS, [[topics["home"]]])
    after = cursors.After("c2", "named", 0)
    for _ in range(7):
        check(40, lambda: drive(cursors.page_of_cursors("home", after, 5, NOW)))
    shown, _ = drive(cursors.page_of_cursors("home", after, 5, NOW))
    assert [each.name for each in shown] == ["c20", "c200", "c201", "c202", "c203"]


@believing("good")
def test_the_view_goes_by_index(topics: dict[str, int]) -> None:
    """A view is planned as a whole, with what the planner believes."""
    check(1_000, lambda: run("SELECT * FROM topic_log WHERE topic = 'home' AND seq > 500 AND seq <= 700"))


@believing("never", "of one record a topic", "of one topic", "of emptied tables", "good")
@pytest.mark.parametrize("names", [["home"], ["home", "short"]])
def test_appends_touch_their_heads(topics: dict[str, int], names: list[str]) -> None:
    wanted = Append([NewRecord(msgspec.Raw(b'"x"')) for _ in range(100)])
    appends = appending([(look_up(name), check_rows(wanted)) for name in names], NOW + RECORDS)
    with connection.cursor() as cursor:
        check(5 * len(names), lambda: cursor.execute(*appends), pages=250 * len(names))


@believing("never", "of one record a topic", "of one topic", "of emptied tables", "good")
def test_topics_are_made_without_a_look_at_the_others(topics: dict[str, int]) -> None:
    names = ["gone7", *(f"new{n}" for n in range(3))]
    made = creating([Creation(name, {}, NOW, noted=True) for name in ("home", *names)])
    check(10, lambda: prepared(made.sql, made.arguments))
    wanted = Append([NewRecord(msgspec.Raw(b'"x"')) for _ in range(100)])
    (first,) = First.transaction(
        [First(name, check_rows(wanted), NOW) for name in ("home", "newer", *names)]
    ).statements
    check(10, lambda: prepared(first.sql, first.arguments), pages=300)
    assert run(
        "SELECT name, head_seq FROM topics_topic JOIN topics_topichead ON id = topic_id WHERE name ~ '^(new|gone)' ORDER BY name"
    ) == [
        ("gone7", 7),
        *((name, 0) for name in names[1:]),
        ("newer", 100),
    ]


@believing("never", "of one record a topic", "of one topic", "of emptied tables", "good")
def test_appends_under_conditions_touch_their_heads_and_keys(topics: dict[str, int]) -> None:
    wanted = Append([NewRecord(msgspec.Raw(b'"x"')) for _ in range(100)], idempotency_key="k")
    appends = [Judged(look_up(name), wanted, check_rows(wanted), NOW + RECORDS) for name in ("home", "short", "long")]
    check(20, lambda: perform(Judged.transaction(appends)), pages=1_200)
    home = look_up("home")
    check(120, lambda: prepared(LAST_KEYED, ("key 99", "key 991", 0, home.id, home.version)))


@believing("never", "of one record a topic", "of one topic", "of emptied tables", "good")
def test_a_unique_tag_costs_one_probe_of_the_index_on_tags(topics: dict[str, int]) -> None:
    """Half of the records have the tag, and all but the last one are deleted."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics_topic SET type = 'queue', unique_tags = true WHERE name = 'home'")
        cursor.execute(
            "UPDATE topics_record SET deleted = true WHERE topic_id = %s AND seq < %s", [topics["home"], RECORDS - 10]
        )
    forget_all()
    tags = ["common", "rare:2000", *(f"new {n}" for n in range(50))]
    wanted = Append([NewRecord(msgspec.Raw(b'"x"'), tag=tag) for tag in tags])
    append = Judged(look_up("home"), wanted, check_rows(wanted), NOW)
    check(20, lambda: perform(Judged.transaction([append])), pages=800)
    assert run("SELECT count FROM topics_topichead WHERE topic_id = %s", topics["home"]) == [(RECORDS + 51,)]


@believing("never", "of one record a topic", "of one topic", "of emptied tables", "good")
def test_appends_that_expect_a_head_touch_it(topics: dict[str, int]) -> None:
    heads = run(
        "SELECT name, head_seq FROM topics_topic JOIN topics_topichead ON id = topic_id WHERE name ~ '^(home|short)$'"
    )
    appends = []
    for name, head in heads:
        wanted = Append([NewRecord(msgspec.Raw(b'"x"'))], expected_head=head)
        appends.append(AtHead(look_up(name), wanted, check_rows(wanted), NOW + RECORDS))
    check(10, lambda: perform(AtHead.transaction(appends)))
    assert run("SELECT head_seq FROM topics_topichead WHERE topic_id = %s", topics["home"]) == [
        (dict(heads)["home"] + 1,)
    ]


@believing("never", "of one record a topic", "of one topic", "of emptied tables", "good")
def test_moves_touch_their_topics_and_cursors(topics: dict[str, int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(CURSORS, [list(topics.values())])
    wanted = [
        cursor_updates.CursorUpdate(name, f"c{n}", 50_000, None, True, NOW)
        for name in ("home", "short", "long")
        for n in (7, 77, 777)
    ]
    check(100, lambda: perform(cursor_updates.CursorUpdate.transaction(wanted)))


@believing("never", "of one record a topic", "of one topic", "good")
def test_deletes_touch_what_they_delete(topics: dict[str, int]) -> None:
    home, other = look_up("home"), look_up("other1")
    tags = [
        removal.Deletion(topic, None, f"rare:{n}", NOW) for topic in (home, other) for n in range(4_000, 60_000, 4_000)
    ]
    check(200, lambda: perform(removal.Deletion.transaction(tags)))
    assert run("SELECT count FROM topics_topichead WHERE topic_id = %s", home.id) == [(RECORDS - 14,)]
    # Up to the last that went by tag there may be holes: there it counts entry by entry.
    below = [removal.Deletion(topic, 4_100, None, NOW) for topic in (home, other)]
    check(5_100, lambda: perform(removal.Deletion.transaction(below)))


@believing("never", "of one record a topic", "of one topic", "of emptied tables", "good")
def test_deletes_below_a_seq_of_plain_topics_look_at_one_record_each(topics: dict[str, int]) -> None:
    below = [removal.Deletion(look_up(name), 3_000, None, NOW) for name in ("home", "other1")]
    check(10, lambda: perform(removal.Deletion.transaction(below)))
    assert run("SELECT floor_seq, count FROM topics_topichead WHERE topic_id = %s", topics["home"]) == [
        (2_999, RECORDS - 2_999)
    ]


def perform(whole: PlannedTransaction) -> None:
    for each in whole.statements:
        prepared(each.sql, each.arguments)
