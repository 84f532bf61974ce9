"""The first unread records of many topics, some of which this process remembers (topics/read/unread.py)."""

from __future__ import annotations

import msgspec
import pytest

from base.clock import now_ms
from store.script import run
from tests.plans import run as select
from tests.scripts import append, delete_seqs, look_up, put_topic
from topics.append.records import Append, NewRecord, check_rows
from topics.config import Config
from topics.read.unread import first_unread, heads_of, remembered

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_a_remembered_record_is_the_first_one_until_it_is_deleted(durability: str) -> None:
    now = now_ms()
    put_topic("a", Config(durability=durability), now)
    id = look_up("a").id
    for n in range(4):
        wanted = Append([NewRecord(msgspec.Raw(b"1"))])
        append("a", wanted, check_rows(wanted), now + n)

    def firsts() -> list[tuple[int, int] | None]:
        (head,) = run(heads_of([id])).values()
        found = run(first_unread([(head, after) for after in range(5)]))
        return [found.get((id, after)) for after in range(5)]

    stored = [*select("SELECT seq, ts FROM topics_record WHERE topic_id = %s ORDER BY seq", id), None]
    assert firsts() == stored
    assert (id, 2) in remembered.times
    assert firsts() == stored
    delete_seqs("a", [2, 4], now)
    assert firsts() == [stored[0], stored[2], stored[2], None, None]
