"""Removals in a topic with holes, and of wide records, read few pages under the head's lock (tests/plans.py)."""

from __future__ import annotations

import pytest

from tests.plans import FILL_HOME, NOW, believing, check_planned, make, rolled_back, run, topics

__all__ = ["rolled_back", "topics"]
pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("rolled_back")]
HOLES = """
UPDATE topics_record SET deleted = true WHERE topic_id = %(id)s AND seq %% 100 = 50;
UPDATE topics_topichead SET holes_seq = 99950, count = count - 1000, bytes = bytes - 10000 WHERE topic_id = %(id)s
"""


def fill() -> dict[str, int]:
    """A topic of own records, of which a thousand are deleted."""
    return {"holed": make("holed", FILL_HOME + ";" + HOLES)}


BELOW = "SELECT topic_delete_below(%s, 1, NULL, %s)"
BELOW_EXPIRED = f"SELECT topic_delete_below(%s, 1, {NOW + 50_000}, %s)"
EXPIRE = f"SELECT topic_expire(%s, {NOW} + %s)"
EVICT = "SELECT topic_evict(%s, %s, 0, NULL, 0, 0)"
EVICT_EXPIRED = f"SELECT topic_evict(%s, %s, 0, {NOW + 5_000}, 0, 0)"
# An append of one record to a topic that got lower caps just before.
HEAD_OF = "(SELECT head FROM topics_topichead head WHERE topic_id = %s LIMIT 1)"
ROOM = f"SELECT topic_make_room({HEAD_OF}, NULL, %s, 0, 1, 10)"
ROOM_EXPIRED = f"SELECT topic_make_room({HEAD_OF}, {NOW + 50_000}, %s, 0, 1, 10)"
ROOM_BYTES = f"SELECT topic_make_room({HEAD_OF}, NULL, 0, %s, 1, 10)"
LEFT = "SELECT count(*), sum(size) FROM topics_record WHERE topic_id = %s AND seq > %s AND NOT deleted"


@pytest.mark.parametrize(
    ("removal", "argument", "floor_seq"),
    [
        (BELOW, 50_000, 2_500),
        (BELOW, 98_000, 97_999),  # counts what is above
        (BELOW, 99_995, 99_994),
        (BELOW_EXPIRED, 60_000, 2_500),
        (EXPIRE, 50_000, 2_500),
        (EXPIRE, 98_000, 97_999),
        (EXPIRE, 99_995, 99_994),
        (EVICT, 50_000, 2_500),
        (EVICT, 5, 99_995),
        (EVICT_EXPIRED, 50_000, 2_500),
        (ROOM, 50_000, 2_500),
        (ROOM, 98_999, 1),  # exact, because the append alone exceeds the cap
        (ROOM_EXPIRED, 50_000, 2_500),
        (ROOM_BYTES, 500_000, 2_500),
    ],
)
@believing("never", "of one record a topic", "of one topic", "of emptied tables", "good")
def test_removals_in_a_topic_with_a_thousand_holes_read_few_pages_under_the_lock(
    topics: dict[str, int], removal: str, argument: int, floor_seq: int
) -> None:
    def remove() -> None:
        run(removal, topics["holed"], argument)

    check_planned(6_000, remove, pages=700)
    remove()
    ((floor, *kept),) = run("SELECT floor_seq, count, bytes FROM topics_topichead WHERE topic_id = %s", topics["holed"])
    assert floor == floor_seq
    assert [tuple(kept)] == run(LEFT, topics["holed"], floor_seq)


# Records of 2 kB, the widest that stand whole in a page.
WIDE = """
INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, deleted, data)
SELECT %(id)s, n, %(now)s + n, n * 1900, 1900, n %% 100 = 50, to_json(repeat('x', 1898))
  FROM generate_series(1, 10000) n;
UPDATE topics_topichead SET head_seq = 10000, holes_seq = 9950, count = 9900, bytes = 9900 * 1900, total = 10000 * 1900,
       last_ts = %(now)s + 10000
 WHERE topic_id = %(id)s
"""


@believing("never", "of one record a topic", "of one topic", "of emptied tables", "good")
@pytest.mark.parametrize("removal", [BELOW, EXPIRE, EVICT, ROOM])
def test_removals_of_wide_records_read_few_pages_under_the_lock(topics: dict[str, int], removal: str) -> None:
    wide = make("wide", WIDE)
    check_planned(6_000, lambda: run(removal, wide, 5_000), pages=2_000)
