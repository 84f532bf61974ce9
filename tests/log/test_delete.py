"""Deleting records by seq and by tag, and whole topics (docs/wire.md)."""

from __future__ import annotations

import json

import msgspec
import pytest
from django.db import connection

from base.errors import InvalidRequest, TopicNotEmpty, TopicNotFound
from base.names import after_prefix
from contract.reading import Match
from routers.routers import RouterConfig
from tests import scripts
from tests.scripts import append, delete_records, delete_topic, diff, look_up, put_router, put_topic
from topics.append.records import Append, NewRecord, check_rows
from topics.cache import forget
from topics.config import Config
from topics.models import DeletedTopic, TopicHead
from topics.read.diff import Diff

pytestmark = pytest.mark.django_db
NOW = 1_748_470_000_000


@pytest.fixture(autouse=True)
def _no_memory() -> None:
    forget("t"), forget("dest")


def write(name: str, *tags: str | None, data: bytes = b'"x"', now: int = NOW) -> None:
    wanted = Append([NewRecord(msgspec.Raw(data), tag=tag) for tag in tags])
    append(name, wanted, check_rows(wanted), now)


def read(name: str, from_seq: int = 0, limit: int = 1000, now: int = NOW) -> tuple[list[int], int]:
    window = diff(name, Diff(from_seq=from_seq, limit=limit), now)
    return [record["$seq"] for record in json.loads(f"[{window.records or ''}]")], window.next_from_seq


def head(name: str) -> TopicHead:
    return TopicHead.objects.get(topic__name=name)


def test_before_seq_moves_the_floor() -> None:
    write("t", *"aabb")
    done = delete_records("t", 3, None, NOW)
    assert done == (2, 3, 4, 2, 6)
    assert read("t") == ([3, 4], 4)
    assert diff("t", Diff(), NOW).lost is None


def test_before_seq_above_the_head_empties_the_topic() -> None:
    write("t", *"aab")
    assert delete_records("t", 100, None, NOW) == (3, 4, 3, 0, 0)
    write("t", "c")
    assert read("t") == ([4], 4)


def test_tag_leaves_holes() -> None:
    write("t", *"abab")
    assert delete_records("t", None, ("tag", "Eq", "b"), NOW) == (2, 1, 4, 2, 6)
    assert read("t") == ([1, 3], 4)
    assert read("t", limit=1) == ([1], 1)
    assert read("t", from_seq=1, limit=1) == ([3], 3)


def test_deleting_the_oldest_by_tag_moves_earliest_seq() -> None:
    write("t", *"aaba")
    assert delete_records("t", None, "a", NOW).earliest_seq == 3
    assert delete_records("t", None, "b", NOW) == (1, 5, 4, 0, 0)


def test_a_glob_matches_a_literal_prefix() -> None:
    write("t", "job:1", "job:2", "job", "jobs", "Job:3", "job;", None)
    assert delete_records("t", None, ("tag", "Glob", "job:*"), NOW).deleted == 2
    assert delete_records("t", None, ("tag", "Glob", "job*"), NOW).deleted == 3
    assert read("t") == ([5, 7], 7)


def test_a_glob_of_nothing_matches_every_tag() -> None:
    write("t", "a", None, "\U0010ffff")
    assert delete_records("t", None, ("tag", "Glob", "*"), NOW).deleted == 2
    assert read("t") == ([2], 3)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [("a", "b"), ("", None), ("\ud7ff", "\ue000"), ("a\U0010ffff", "b"), ("\U0010ffff", None), ("é", "ê")],
)
def test_after_prefix(prefix: str, end: str | None) -> None:
    assert after_prefix(prefix) == end


def test_both_conditions_have_to_hold() -> None:
    write("t", *"aaaa")
    assert delete_records("t", 3, "a", NOW) == (2, 3, 4, 2, 6)


def test_a_second_delete_finds_nothing() -> None:
    write("t", *"aba")
    assert delete_records("t", None, "a", NOW).deleted == 2
    assert delete_records("t", None, "a", NOW).deleted == 0
    assert delete_records("t", 2, None, NOW).deleted == 0


def test_what_is_expired_was_lost_not_deleted() -> None:
    put_topic("t", Config(ttl_ms=1000), NOW)
    write("t", "a", "a")
    write("t", "a", now=NOW + 900)
    assert delete_records("t", None, "a", NOW + 1500).deleted == 1
    window = diff("t", Diff(), NOW + 1500)
    assert (window.lost, window.gap_to) == ("ttl", 3)
    assert diff("t", Diff(from_seq=2), NOW + 1500).lost is None


def test_what_is_expired_and_matches_is_counted_once() -> None:
    put_topic("t", Config(ttl_ms=1000), NOW)
    write("t", *"bab")
    write("t", *"ab", now=NOW + 900)
    assert delete_records("t", None, "a", NOW + 1500) == (1, 5, 5, 1, 3)
    assert diff("t", Diff(from_seq=2), NOW + 1500).lost == "ttl"


@pytest.mark.parametrize("match", ["a", ("tag", "Glob", "a*")])
def test_what_is_expired_leaves_the_count_exact_where_there_are_holes(match: Match) -> None:
    put_topic("t", Config(ttl_ms=1000), NOW)
    write("t", *"ab")
    write("t", *"aacb", now=NOW + 900)
    assert delete_records("t", None, "c", NOW + 900).deleted == 1
    assert delete_records("t", None, match, NOW + 1500) == (2, 6, 6, 1, 3)
    assert (head("t").count, read("t", now=NOW + 1500)[0]) == (1, [6])


@pytest.mark.parametrize("match", ["a", ("tag", "Glob", "a*")])
def test_all_that_is_not_expired_goes(match: Match) -> None:
    put_topic("t", Config(ttl_ms=1000), NOW)
    write("t", *"ab")
    write("t", *"aca", now=NOW + 900)
    assert delete_records("t", None, "c", NOW + 900).deleted == 1
    assert delete_records("t", None, match, NOW + 1500) == (2, 6, 5, 0, 0)


def test_it_refuses_neither_condition() -> None:
    write("t", "a")
    with pytest.raises(InvalidRequest):
        delete_records("t", None, None, NOW)


def test_it_refuses_an_absent_topic() -> None:
    with pytest.raises(TopicNotFound):
        delete_records("absent", 1, None, NOW)


# -- Records that came through a router


def mirror(**options: object) -> None:
    put_router("r", RouterConfig(source="t", dest="dest", start="earliest", **options), NOW)  # type: ignore[arg-type]


def spans(name: str) -> list[tuple[int, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT first_seq, last_seq, home_first_seq, home_last_seq, shown FROM topics_span"
            " WHERE topic_id = (SELECT id FROM topics_topic WHERE name = %s) ORDER BY last_seq",
            [name],
        )
        return cursor.fetchall()


def test_a_span_is_cut_where_the_tag_matches() -> None:
    write("dest", "b")
    write("t", *"abba")
    mirror()
    assert delete_records("dest", None, "b", NOW) == (3, 2, 5, 2, 6)
    assert spans("dest") == [(2, 2, 1, 1, True), (3, 4, 2, 3, False), (5, 5, 4, 4, True)]
    assert read("dest") == ([2, 5], 5)
    assert read("t") == ([1, 2, 3, 4], 4)


def test_a_span_is_cut_up_to_before_seq() -> None:
    write("t", *"aaaa")
    mirror()
    assert delete_records("dest", 3, "a", NOW) == (2, 3, 4, 2, 6)
    assert spans("dest") == [(1, 2, 1, 2, False), (3, 4, 3, 4, True)]


def test_a_floor_may_lie_in_a_span() -> None:
    write("t", *"abab")
    mirror()
    assert delete_records("dest", 2, None, NOW) == (1, 2, 4, 3, 9)
    assert delete_records("dest", None, "b", NOW) == (2, 3, 4, 1, 3)
    assert read("dest") == ([3], 4)


def test_a_tag_that_was_not_kept_does_not_match() -> None:
    write("t", *"ab")
    mirror(preserve_tag=False)
    assert delete_records("dest", None, "b", NOW).deleted == 0


def test_what_is_expired_in_a_span_was_lost() -> None:
    put_topic("dest", Config(ttl_ms=1000), NOW)
    write("t", *"aba")
    mirror()
    scripts.catch_up(look_up("dest").id, NOW)
    write("t", *"ab")
    scripts.catch_up(look_up("dest").id, NOW + 900)
    assert delete_records("dest", None, "a", NOW + 1500) == (1, 5, 5, 1, 3)
    assert diff("dest", Diff(), NOW + 1500).lost == "ttl"


def test_deleting_at_the_source_leaves_the_copy() -> None:
    write("t", *"ab")
    mirror()
    assert read("dest") == ([1, 2], 2)
    delete_records("t", None, "a", NOW)
    assert read("dest") == ([1, 2], 2)
    assert delete_records("dest", None, "a", NOW).deleted == 1


def test_stamps_stay_with_their_records() -> None:
    write("t", *"abab")
    mirror(guarantee="exactly_once")
    scripts.catch_up(look_up("dest").id, NOW)
    delete_records("dest", None, "b", NOW)
    records = json.loads(f"[{diff('dest', Diff(), NOW).records}]")
    assert [(r["$seq"], r["meta"]["_topics_router"]["source_seq"]) for r in records] == [(1, 1), (3, 3)]


# -- Whole topics


def test_a_deleted_topic_is_gone_with_its_routers() -> None:
    write("t", *"ab")
    mirror()
    assert read("dest") == ([1, 2], 2)
    id = look_up("t").id
    assert delete_topic("t", False, NOW) == (True, ["r"])
    assert read("dest") == ([1, 2], 2)
    assert DeletedTopic.objects.get(pk=id).name == "t"
    with pytest.raises(TopicNotFound):
        diff("t", Diff(), NOW)


def test_an_absent_topic_is_not_deleted() -> None:
    assert delete_topic("absent", False, NOW) == (False, [])


def test_a_topic_that_holds_records_is_not_empty() -> None:
    write("t", "a")
    with pytest.raises(TopicNotEmpty):
        delete_topic("t", True, NOW)
    delete_records("t", 2, None, NOW)
    assert delete_topic("t", True, NOW) == (True, [])


def test_the_other_ends_of_its_routers_know() -> None:
    write("t", "a")
    mirror()
    before = head("dest").version
    delete_topic("t", False, NOW)
    assert head("dest").version == before + 1
    assert look_up("dest").derived is False
