"""Ack, nack and extend: what a node does with the jobs that it holds (docs/queues.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar
from uuid import UUID

from queues.leases import LeaseStep, in_queue
from store.codec import Rows
from store.script import Script, Statement
from topics.cache import CachedTopic
from topics.models import Topic

HELD = "%s, %s, %s, %s, %s, %s::int[], %s::text[], %s::bigint[], %s::uuid[]"
ACK = f"SELECT n, seq, deadline FROM queue_ack({HELD})"
NACK = f"SELECT n, seq, deadline FROM queue_nack({HELD}, %s::bigint[], %s::text[])"
EXTEND = f"SELECT n, seq, deadline FROM queue_extend({HELD}, %s::bigint[])"
NO_LEASE = UUID(int=0)  # the id of no lease

T = TypeVar("T")


class Holding(NamedTuple):
    """The leases that a call names: a node, and seqs, each with the id of its lease or None."""

    node: str
    seqs: list[int]
    ids: list[UUID | None]


class Settled(NamedTuple):
    """The seqs of a call that were settled, each with its new deadline, the others, and the figures of the queue."""

    done: dict[int, int]
    skipped: list[int]
    ready: int
    in_flight: int


def holding(node: str, seqs: list[int], lease_ids: list[str] | None) -> Holding:
    """Returns the leases that a call names. An id that no lease can have is stale.

    `lease_ids`: as a claim returns them (sql/functions/job_json.sql). Those of an older server do not begin with `lease_`.
    """
    ids: list[str | None] = [None] * len(seqs) if lease_ids is None else [*lease_ids]
    named = dict.fromkeys(zip(seqs, ids, strict=True))
    return Holding(node, [seq for seq, _ in named], [parsed(id) for _, id in named])


def parsed(lease_id: str | None) -> UUID | None:
    if lease_id is None:
        return None
    try:
        return UUID(lease_id.removeprefix("lease_"))
    except ValueError:
        return NO_LEASE


class Settle(LeaseStep[Settled], Generic[T]):
    """A call on leases of a node. `values`: the last arguments of the call."""

    sql = ""

    def __init__(self, topic: CachedTopic, held: Holding, values: tuple[Any, ...], *args: int | None) -> None:
        super().__init__(topic, *args)
        self.held, self.values, self.weight = held, values, max(len(held.seqs), 1)

    @classmethod
    def statement(cls, known: tuple[Any, ...], batch: Sequence[Self]) -> Statement:
        places = [n for n, each in enumerate(batch, 1) for _ in each.held.seqs]
        nodes = [each.held.node for each in batch for _ in each.held.seqs]
        seqs = [seq for each in batch for seq in each.held.seqs]
        ids = [id and str(id) for each in batch for id in each.held.ids]
        values = zip(*(each.values for each in batch), strict=True)
        return Statement(cls.sql, (*known, places, nodes, seqs, ids, *map(list, values)))

    @classmethod
    def told(cls, batch: Sequence[Self], rows: Rows) -> list[Settled]:
        done: list[dict[int, int]] = [{} for _ in batch]
        ready = in_flight = 0
        for n, seq, deadline in rows:
            if n:
                done[n - 1][seq] = deadline
            else:
                ready, in_flight = seq, deadline
        return [
            Settled(found, [seq for seq in dict.fromkeys(each.held.seqs) if seq not in found], ready, in_flight)
            for each, found in zip(batch, done, strict=True)
        ]


class Ack(Settle[Any]):
    sql = ACK

    @staticmethod
    def is_durable(topic: CachedTopic) -> bool:
        """An ack deletes the job, with the topic's durability."""
        return topic.durability == Topic.Durability.FSYNC


class Nack(Settle[Any]):
    """`values`: the delay in ms, and the last error of the jobs (None: no change)."""

    sql = NACK


class Extend(Settle[Any]):
    """`values`: the new lease in ms."""

    sql = EXTEND


def settle(
    kind: type[Settle[Any]], name: str, held: Holding, values: tuple[Any, ...], now: int, at: int | None = None
) -> Script[Settled]:
    """Acks, nacks or extends. `values`: the last arguments of a nack or an extend. `at`: as in a claim.

    Raises TopicNotFound, NotAQueue, TopicSealed or NotReady.
    """

    def work(topic: CachedTopic) -> Script[Settled | None]:
        return (yield kind(topic, held, values, at, topic.expired_ts(now)))

    return in_queue(name, now, work)
