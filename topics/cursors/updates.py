"""Sets named cursors. Calls that arrive while another transaction runs share the next one, also for different topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from django.conf import settings

from store.script import Coalesced, Done, PlannedTransaction, Statement

# MOVE sets different cursors in order. So two MOVE statements cannot deadlock. MOVE locks the row of each topic against a
# delete, because a cursor must not outlive its topic. Then MOVE locks the row of the cursor. If two owners set a cursor at
# once, the second waits for the first, on the row or on its unique index. Then the second compares with the new seq. An
# absent cursor counts as seq 0. If another call creates the cursor meanwhile, MOVE compares the seq under the cursor's
# lock. If MOVE changed nothing, the other columns say why: the head, and the kind of owner of the name (if the key may
# learn about it), and whether the topic has no room for a new cursor. Only a new cursor costs a count. Calls at once can create
# some cursors above the cap, because each counts those of before. The search for the oldest unread record starts at the cursor,
# the floor or the expiry time, whichever is last. The cursor of a webhook prevents nothing, because a webhook can have the name
# of a consumer.
MOVE = """
WITH known AS MATERIALIZED (
    SELECT n, topic.id, sealed, name, coalesce(seq, head_seq) AS seq, expected, head_seq, head,
           CASE WHEN ttl_ms > 0 THEN %(now)s - ttl_ms END AS expired_ts,
           (SELECT kind FROM topics_cursor c
             WHERE c.topic_id = topic.id AND c.name = asked.name AND kind NOT IN ('named', 'webhook') AND others LIMIT 1) AS kind,
           (SELECT c.seq FROM topics_cursor c
             WHERE c.topic_id = topic.id AND c.name = asked.name AND kind = 'named' FOR NO KEY UPDATE) AS held
      FROM unnest(%(topics)s::text[], %(names)s::text[], %(seqs)s::bigint[], %(expected)s::bigint[], %(others)s::boolean[])
               WITH ORDINALITY AS asked (topic, name, seq, expected, others, n)
     CROSS JOIN LATERAL (SELECT id, sealed, ttl_ms FROM topics_topic t WHERE t.name = asked.topic FOR KEY SHARE) topic
     CROSS JOIN LATERAL (SELECT head_seq, h AS head FROM topics_topichead h WHERE topic_id = topic.id LIMIT 1) latest),
moved AS (
    INSERT INTO topics_cursor AS c (topic_id, kind, name, seq, forwarded_total, updated_ts)
    SELECT id, 'named', name, seq, 0, %(now)s FROM known
     WHERE seq <= head_seq AND kind IS NULL AND coalesce(expected = coalesce(held, 0), true)
       AND CASE WHEN held IS NULL THEN NOT topic_cursors_are_full(id, %(most)s) ELSE true END
    ON CONFLICT (topic_id, name, kind) DO UPDATE SET seq = excluded.seq, updated_ts = excluded.updated_ts
     WHERE (SELECT coalesce(expected = c.seq, true) FROM known WHERE known.id = c.topic_id AND known.name = c.name)
    RETURNING topic_id, name, c.id AS cursor_id, xmax = 0 AS made)
SELECT n - 1, known.id, head_seq, kind, cursor_id, known.seq,
       %(now)s - topic_next_ts(known.id, greatest(known.seq, (SELECT earliest_seq FROM topic_stat(head, expired_ts)) - 1)),
       %(now)s::bigint, made, sealed,
       CASE WHEN cursor_id IS NULL AND held IS NULL THEN topic_cursors_are_full(known.id, %(most)s) ELSE false END
  FROM known LEFT JOIN moved ON moved.topic_id = known.id AND moved.name = known.name
"""


class CursorUpdated(NamedTuple):
    """The result of a move: the topic, its head, and the cursor as it was set.

    `kind`: the kind of the owner, if the name belongs to another cursor. `cursor_id`: the cursor, or None if nothing changed.
    `unread_ms`: the age of the oldest unread record in ms. `made`: whether the cursor is new. `sealed`: whether the topic is
    sealed. `is_full`: whether the cursor is absent, and the topic has as many named cursors as the cap allows.
    """

    topic_id: int
    head_seq: int
    kind: str | None
    cursor_id: int | None
    seq: int
    unread_ms: int | None
    updated_ts: int
    made: bool | None
    sealed: bool
    is_full: bool


@dataclass(eq=False)
class CursorUpdate(Coalesced[CursorUpdated | None]):
    """Sets a named cursor. The result is None if the topic does not exist.

    `seq`: None means the head. `expected`: the seq that the cursor must have, or None for any seq. `others`: whether a
    cursor of a router with this name prevents the move.
    """

    topic: str
    name: str
    seq: int | None
    expected: int | None
    others: bool
    now: int

    @property
    def cursor(self) -> tuple[str, str]:
        return self.topic, self.name

    @property
    def lock(self) -> tuple[str, str]:  # type: ignore[override]
        return self.cursor

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        """Returns the first move of each cursor with the moves that repeat it without a condition. The rest is divided again."""
        groups: list[list[Self]] = []
        while batch:
            moves = leading(batch)
            group = [each for each in batch if each is moves[each.cursor] or repeats(each, moves[each.cursor])]
            groups.append(group)
            batch = [each for each in batch if each not in group]
        return groups

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> PlannedTransaction:
        """The moves of one cursor are all equal here. The transaction does each once."""
        moves = leading(batch).values()
        wanted = {
            "topics": [each.topic for each in moves],
            "names": [each.name for each in moves],
            "seqs": [each.seq for each in moves],
            "expected": [each.expected for each in moves],
            "others": [each.others for each in moves],
            "now": max(each.now for each in batch),
            "most": settings.TOPICS_MAX_CURSORS_PER_TOPIC,
        }
        return PlannedTransaction([Statement(MOVE, wanted)])

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[CursorUpdated | None]:
        """If a cursor was absent, only its first move reports `made`."""
        moves = leading(batch)
        cursors = list(moves)
        found = {cursors[place]: CursorUpdated(*rest) for place, *rest in done.rows[0]}
        outcomes: list[CursorUpdated | None] = []
        for each in batch:
            got = found.get(each.cursor)
            outcomes.append(got._replace(made=False) if got and each is not moves[each.cursor] else got)
        return outcomes


def leading(batch: Sequence[CursorUpdate]) -> dict[tuple[str, str], CursorUpdate]:
    """Returns the first move of each cursor, in order of cursor."""
    first = {each.cursor: each for each in reversed(batch)}
    return dict(sorted(first.items()))


def repeats(move: CursorUpdate, first: CursorUpdate) -> bool:
    """Whether both moves of a cursor have no condition and ask for the same. The result of `first` does not matter."""
    return move.expected is None and first.expected is None and (move.seq, move.others) == (first.seq, first.others)
