"""Hooks: functions of other apps that the log calls. The log does not import routers, streams or the bus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from msgspec import Raw

from base.slot import Slot
from store.script import Script
from topics.cache import CachedTopic
from wire.access.keys import Key


class JobCounts(NamedTuple):
    """The numbers of ready jobs, of jobs in flight, of jobs that were moved to the dead letter topic, and of delayed jobs.
    `oldest_ready_ms`: for how long the oldest ready job has been ready, or None without a ready job."""

    ready: int
    in_flight: int
    dead_lettered: int
    delayed: int
    oldest_ready_ms: int | None


class Hooks(NamedTuple):
    # Called before a read of a topic that routers forward into (topic, now). The read must see every record that was
    # acknowledged upstream before.
    before_read: Callable[[CachedTopic, int], Script[None]]
    # Called before a topic's config is saved (name, `discard`, `sealed`). Raises InvalidRequest if the topic cannot have this
    # config.
    check_config: Callable[[str, str, bool], None]
    # Called before an append (name, the data of its records). Raises InvalidRequest if the topic cannot have these records.
    check_records: Callable[[str, Sequence[Raw]], None]
    # Called before other topics are tied to a topic that would get their records (name). Raises InvalidRequest if it cannot have
    # records of any kind.
    check_dest: Callable[[str], None]
    # Called in the transaction that deletes a topic, before its row is locked. Locks out changes of routers and other objects
    # that name topics.
    before_delete: Callable[[], Script[None]]
    # Called in the same transaction, with the row locked and the head not yet (topic id, name, key of the request). Deletes the
    # objects that name the topic. Returns the names of the deleted routers.
    with_delete: Callable[[int, str, Key], Script[list[str]]]
    # Called at the end of this transaction, with the head locked, when nothing new can refer to the row (topic id). Locks, in
    # their order, objects that PostgreSQL deletes with the topic, and deletes the rows that others write with the head locked.
    before_drop: Callable[[int], Script[None]]
    # Returns the names of the routers into or out of topics (ids). A page shows the names before a delete.
    named_by: Callable[[list[int]], Script[list[str]]]
    # Returns when a topic's head differs from a seq, when the topic is sealed, or after the time (topic id, seq, seconds). The
    # result is False if the time is over or this process is about to end, and otherwise True: waiting again makes sense.
    until_moved: Callable[[int, int, float], Awaitable[bool]]
    # Called after a client deleted records of a queue (queue, now), in another transaction. The jobs are in flight no longer.
    after_delete: Callable[[CachedTopic, int], Script[None]]
    # Returns the figures of a queue (queue, now), or None if the topic has another version.
    count_jobs: Callable[[CachedTopic, int], Script[JobCounts | None]]


hooks: Slot[Hooks] = Slot()
