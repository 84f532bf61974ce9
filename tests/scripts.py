"""The domain's scripts, run on this thread's connection: as the admin and the commands do."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

import routers.advance
import routers.routers
import topics.append.appending
import topics.append.copies
import topics.audit
import topics.cache
import topics.config
import topics.cursors.named
import topics.delete.records
import topics.delete.topic
import topics.read.diff
import topics.read.lineage
import watch.sessions
from routers.models import Router
from routers.routers import RouterConfig
from store.script import Script, run
from topics.cache import CachedTopic
from topics.config import Config
from topics.models import Topic
from topics.read.diff import Diff, Window
from wire.access.keys import OPEN, Key

P, T = ParamSpec("P"), TypeVar("T")


def ran(script: Callable[P, Script[T]]) -> Callable[P, T]:
    @wraps(script)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(script(*args, **kwargs))

    return call


append = ran(topics.append.appending.append)
record = ran(topics.read.lineage.record)
delete_records = ran(topics.delete.records.delete_records)
delete_seqs = ran(topics.delete.records.delete_seqs)
copy = ran(topics.append.copies.copy)
delete_topic = ran(topics.delete.topic.delete_topic)
move = ran(topics.cursors.named.move)
cursor = ran(topics.cursors.named.cursor)
page_of_cursors = ran(topics.cursors.named.page_of_cursors)
delete_cursor = ran(topics.cursors.named.delete_cursor)
known = ran(topics.cache.topic_called)
set_paused = ran(routers.routers.set_paused)
delete_router = ran(routers.routers.delete_router)
create_session = ran(watch.sessions.create)
sweep_sessions = ran(watch.sessions.sweep)
note = ran(topics.audit.note)


def look_up(name: str) -> CachedTopic:
    """The topic as it is now, whatever was remembered."""
    topics.cache.forget(name)
    return known(name)


def diff(name: str, wanted: Diff, now: int) -> Window:
    return run(topics.read.diff.diff(name, wanted, lambda: now))


def put_topic(name: str, config: Config, now: int) -> tuple[Topic, bool]:
    put = run(topics.config.put_topic(name, config, now))
    return Topic.objects.get(name=name), put.created


class Put(NamedTuple):
    """A router, and whether it is new."""

    router: Router
    created: bool


def put_router(name: str, config: RouterConfig, now: int, key: Key = OPEN) -> Put:
    put = run(routers.routers.put_router(name, config, now, key))
    return Put(Router.objects.select_related("source", "dest").get(name=name), put.created)


def catch_up(topic_id: int, now: int) -> routers.advance.Moves:
    return run(routers.advance.catching_up(topic_id, now))
