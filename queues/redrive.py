"""Redrive: dead letters go back to the queues that they come from (docs/queues.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from base.bounds import LETTER_FROM, LETTER_STAMP
from base.errors import (
    Forbidden,
    Incompatible,
    InvalidRequest,
    NotAQueue,
    NotFound,
    Outdated,
    TopicFull,
    TopicNotFound,
    TopicSealed,
    TopicsError,
)
from contract.appending import NO_META
from queues.leases import in_queue
from queues.letters import LETTERS, Choice, Letters, choose
from queues.rows import as_rows, first_of_tags
from store import disk
from store.script import Script, Statement, atomically
from topics import wake
from topics.append.judged import append_once
from topics.append.records import Append
from topics.append.statements import SYNC, array
from topics.cache import CachedTopic, as_known, forget_known, known_topic
from topics.delete.records import DELETE_SEQS
from topics.heads import LOCK_HEADS
from topics.hooks import hooks
from topics.models import Topic
from topics.sealed import IS_CURRENT, check_seal
from wire.access.keys import Key

LOCK_DELETES = "SELECT pg_advisory_xact_lock(7003, (%s %% 2147483648)::integer)"  # as topic_delete_seqs
ANY_SIZE = 2**62
REFUSALS = (InvalidRequest, Forbidden, TopicNotFound, NotAQueue, TopicSealed, TopicFull)


class Skipped(NamedTuple):
    """Letters of a queue (None: of no queue) that stay, and the error that tells why."""

    queue: str | None
    error: TopicsError
    seqs: list[int]


class MovedLetters(NamedTuple):
    """The number of letters that moved to a queue, the head of the queue, and the seqs of the letters that have to stay.

    A letter stays if the queue has `unique_tags` and a job with its tag.
    """

    letters: int
    head_seq: int = 0
    left: Sequence[int] = ()


class Redriven(NamedTuple):
    """The number of moved letters by queue, the letters that stay, the last examined seq, and whether none is left above it."""

    moved: dict[str, int]
    skipped: list[Skipped]
    next_from_seq: int
    caught_up: bool


def redrive(name: str, wanted: Choice, key: Key, now: int, *, is_dry: bool = False) -> Script[Redriven]:
    """Moves the next letters of a choice to their queues, with one transaction for each queue. `is_dry`: changes nothing.

    Raises TopicNotFound, TopicSealed, InvalidRequest, StorageFull or NotReady.
    """
    return (yield from redrive_chosen(name, (yield from choose(name, wanted, now)), key, now, is_dry=is_dry))


def redrive_chosen(name: str, found: Letters, key: Key, now: int, *, is_dry: bool = False) -> Script[Redriven]:
    """As redrive(), for letters that were chosen before."""
    disk.check()
    yield from as_known(name, check_unsealed)
    by_queue: dict[str | None, list[int]] = {}
    for letter in found.letters:
        by_queue.setdefault(letter.queue, []).append(letter.seq)
    moved: dict[str, int] = {}
    skipped: list[Skipped] = []
    if found.absent:
        skipped.append(Skipped(None, NotFound(f"topic {name!r} has no such record", topic=name), found.absent))
    for queue, seqs in by_queue.items():
        try:
            origin = check_origin(queue, name, key)
            done = yield from in_queue(origin, now, look(seqs) if is_dry else send_back(name, seqs, now))
            moved[origin] = done.letters
            if done.left:
                skipped.append(Skipped(queue, has_job(origin), list(done.left)))
        except REFUSALS as error:
            if error.detail.get("topic") == name:  # sealed since we looked
                raise
            skipped.append(Skipped(queue, error, seqs))
    return Redriven(moved, skipped, found.next_from_seq, found.caught_up)


def check_unsealed(topic: CachedTopic) -> Script[bool | None]:
    return (yield from check_seal(topic, False)) or None


def check_origin(queue: str | None, name: str, key: Key) -> str:
    """Returns the queue. Raises InvalidRequest if the letter names none, or Forbidden if the key may not write to it."""
    if queue is None or queue == name:
        raise InvalidRequest(f"this record is no dead letter: expected a queue as {LETTER_FROM} in meta")
    if not key.allows(queue):
        raise Forbidden("the queue is outside this key's prefixes: use another key, or add a prefix")
    return queue


def has_job(queue: str) -> TopicsError:
    return Incompatible(f"queue {queue!r} has unique_tags, and a job of this tag waits or runs", topic=queue)


def look(seqs: list[int]) -> Callable[[CachedTopic], Script[MovedLetters | None]]:
    """Returns the work on a queue that only counts: how many letters can move. The queue can still refuse them."""

    def work(queue: CachedTopic) -> Script[MovedLetters | None]:
        return MovedLetters(len(seqs)) if (yield Statement(IS_CURRENT, (queue.id, queue.version), quick=True)) else None

    return work


def send_back(name: str, seqs: list[int], now: int) -> Callable[[CachedTopic], Script[MovedLetters | None]]:
    """Returns the work of moving letters to a queue. The number is below that of the seqs if a letter was deleted."""

    def work(queue: CachedTopic) -> Script[MovedLetters | None]:
        dead = yield from known_topic(name)
        if dead is None:
            return MovedLetters(0)
        try:
            if not (yield from check_seal(dead, False)):
                raise Outdated("the dead letter topic has another version")
            done = yield from atomically(move(dead, queue, seqs, now), dead.id)
        except Outdated:
            forget_known(dead)
            raise
        if done is not None and done.letters:
            wake.moved(queue, done.head_seq)
            if dead.type == Topic.Type.QUEUE:
                yield from hooks.value.after_delete(dead, now)
        return done

    return work


def move(dead: CachedTopic, queue: CachedTopic, seqs: list[int], now: int) -> Script[MovedLetters | None]:
    """Appends the letters to the queue and deletes them, in one transaction.

    Returns None if the queue has another version. Raises Outdated if `dead` has.
    """
    known = (dead.id, dead.version, dead.expired_ts(now))
    yield Statement(LOCK_DELETES, (dead.id,))  # before the heads, like a delete
    yield Statement(LOCK_HEADS, (array([dead.id, queue.id]),))
    found = yield Statement(LETTERS, (*known, array(seqs), ANY_SIZE))
    found, others = first_of_tags(found) if queue.unique_tags else (found, [])
    if not found:
        return MovedLetters(0)
    jobs = as_rows(found, [unstamped(row[3]) for row in found])
    done = yield from append_once(queue, Append(records=[]), jobs, now)
    if done is None:
        return None
    taken, left = [row[0] for row in found], [row[0] for row in others]
    if done.known:
        left += [seq for seq, job in zip(taken, done.known, strict=True) if job is not None]
        taken = [seq for seq, job in zip(taken, done.known, strict=True) if job is None]
    yield Statement(SYNC, ("on",))  # the jobs must not be lost on their way
    yield Statement(DELETE_SEQS, (dead.id, dead.version, array(taken), dead.expired_ts(now)))
    return MovedLetters(len(taken), done.last_seq, sorted(left))


def unstamped(meta: str) -> msgspec.Raw:
    """Returns the `meta` of a dead letter without the fields of the move."""
    fields = msgspec.json.decode(meta, type=dict[str, msgspec.Raw])
    own = {name: value for name, value in fields.items() if name not in LETTER_STAMP}
    return msgspec.Raw(msgspec.json.encode(own)) if own else NO_META
