"""The state of a share in the stream of its owner: the seqs that were read, sent and committed."""

from __future__ import annotations

from collections import deque


class SessionShare:
    """A share of a session.

    `position`: the share's records up to there were sent, if there were any. `sent_seq`: the last seq that was sent, or the
    cursor from which the share started. `waiting`: the last seq and the size of each event whose commit is awaited, in order.
    `drained_turn`: the decision to move the share that PostgreSQL knows as carried out.
    """

    __slots__ = (
        "committed_seq",
        "drained_turn",
        "generation",
        "in_flight",
        "is_revoked",
        "number",
        "position",
        "read_at",
        "sent_seq",
        "turn",
        "waiting",
    )

    def __init__(self, number: int, generation: int, seq: int) -> None:
        self.number, self.generation = number, generation
        self.committed_seq = self.position = self.sent_seq = seq
        self.waiting: deque[tuple[int, int]] = deque()
        self.in_flight = 0
        self.is_revoked = False
        self.turn = self.drained_turn = -1
        self.read_at = 0  # the number of the stream's last read for this share

    def sent(self, last_seq: int, count: int) -> None:
        """Notes an event with `count` records. A tombstone counts as one, because its loss waits for a commit, too."""
        self.waiting.append((last_seq, count))
        self.in_flight += count
        self.sent_seq = last_seq

    def committed(self, seq: int) -> None:
        """Notes a cursor from PostgreSQL. Answers can arrive out of order, so a lower one is ignored."""
        self.committed_seq = max(self.committed_seq, seq)
        while self.waiting and self.waiting[0][0] <= self.committed_seq:
            self.in_flight -= self.waiting.popleft()[1]
