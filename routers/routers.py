"""Create, change, pause and delete routers (docs/routers.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from django.conf import settings
from msgspec import UNSET, Meta, UnsetType

from base.errors import (
    DestFanIn,
    Incompatible,
    InvalidRequest,
    LeadsElsewhere,
    RouterOutsidePrefixes,
)
from base.names import check_router_name, check_topic_name
from contract.cursors import Edge
from contract.names import NamedTopic
from contract.reading import Match, Seq
from routers import graph
from routers.models import Router
from routers.stored import FIND, NAMING, StoredRouter, find
from store.script import Script, Statement, atomically
from topics import audit, wake
from topics.cache import absent, forget
from topics.config import defaults, insert_topic
from topics.cursors import owned as owned_cursors
from topics.heads import ENDS, HEAD, LOCK_HEADS, LOCK_TOPIC, OUTDATE, SAVE_ROUTER_FACTS
from topics.hooks import hooks
from topics.read.diff import check_match
from wire import limits
from wire.access.keys import OPEN, Key
from wire.request.parse import Request

Guarantee = Annotated[Literal["at_least_once", "exactly_once"], Meta(title="Guarantee")]
COUNT = "SELECT count(*) FROM routers_router"
# A router into a dest from another source: one without allow_fan_in, or else any.
OTHER_SOURCE = """
SELECT source.name, r.name, r.allow_fan_in FROM routers_router r JOIN topics_topic source ON source.id = r.source_id
 WHERE r.dest_id = %s AND r.source_id <> %s ORDER BY r.allow_fan_in, r.id LIMIT 1
"""
# Uses the indexes on source and dest.
SAVE_FACTS = SAVE_ROUTER_FACTS.format(
    facts="""
SELECT topic_id, EXISTS (SELECT FROM routers_router WHERE source_id = topic_id),
       EXISTS (SELECT FROM routers_router WHERE dest_id = topic_id),
       EXISTS (SELECT FROM routers_router WHERE dest_id = topic_id AND cyclic)
  FROM unnest(%s::bigint[]) topic_id
"""
)
DEFAULTS = defaults(Router)
INSERT = f"""
INSERT INTO routers_router (name, source_id, dest_id, cursor_id, created_ts, {", ".join(DEFAULTS)})
VALUES (%(name)s, %(source_id)s, %(dest_id)s, %(cursor_id)s, %(now)s, {", ".join(f"%({name})s" for name in DEFAULTS)})
"""
CHANGEABLE = (
    "preserve_node",
    "preserve_tag",
    "allow_cycle",
    "allow_fan_in",
    "guarantee",
    "filter_op",
    "filter_tag",
    "state",
)
# Pausing or resuming a router clears its error.
SAVE = f"""
UPDATE routers_router
   SET {", ".join(f"{name} = %({name})s" for name in CHANGEABLE if name != "state")}, state = %(state)s::text,
       last_error = CASE WHEN state = %(state)s::text THEN last_error END,
       retry_bytes = CASE WHEN state = %(state)s::text THEN retry_bytes END,
       retry_ms = CASE WHEN state = %(state)s::text THEN retry_ms ELSE 0 END,
       retry_ts = CASE WHEN state = %(state)s::text THEN retry_ts ELSE 0 END
 WHERE id = %(id)s
"""
STATE = "SELECT state FROM routers_router WHERE id = %s"
DELETE_ROUTERS = "DELETE FROM routers_router WHERE id = ANY (%s)"
# Sets the order of all routers into a dest from sources with a prefix.
SET_ORDERED = """
UPDATE routers_router r SET ordered = %(ordered)s
 WHERE dest_id = (SELECT id FROM topics_topic WHERE name = %(dest)s) AND ordered <> %(ordered)s
   AND (SELECT name FROM topics_topic WHERE id = r.source_id) ^@ %(sources)s
"""
FLIP_CYCLIC = "UPDATE routers_router SET cyclic = NOT cyclic WHERE id = ANY (%s)"


class RouterConfig(Request):
    """The body of a PUT. `from`, `from_ts`, `allow_fan_in` and `paused` are additions of this server."""

    source: NamedTopic
    """The topic to forward from. Created if missing. Cannot change (409)."""
    dest: NamedTopic
    """The topic to forward to. Must differ from `source`. Cannot change (409)."""
    preserve_node: bool | UnsetType = UNSET
    """If false, copies have no `$node`. Default: `true` for a new router."""
    preserve_tag: bool | UnsetType = UNSET
    """If false, copies have no `$tag`. Default: `true` for a new router."""
    create_dest: bool = True
    """If `dest` does not exist: `true` creates it, `false` answers 404."""
    filter: Match | UnsetType | None = UNSET
    """Forwards only records with a matching tag, as in `match` of a diff. Null: all records. Default: `null` for a new router."""
    allow_cycle: bool | UnsetType = UNSET
    """If true, the router may close a cycle. If false, a cycle answers 409 `router_cycle`. Default: `false` for a new router."""
    allow_fan_in: bool | UnsetType = UNSET
    """If true, the dest may have other sources whose routers also set this. Default: `false` for a new router."""
    guarantee: Guarantee | UnsetType = UNSET
    """`exactly_once` stamps each copy's `meta` with the copy's origin. Default: `"at_least_once"` for a new router."""
    paused: bool | UnsetType = UNSET
    """If true, the router is paused. Default: `false` for a new router."""
    start: Edge | Annotated[int, Meta(ge=0, le=2**63 - 1)] = msgspec.field(default="head", name="from")
    """Start of a new router: after the source's head (`"head"`), before its first record (`"earliest"`), or after a seq.
    Ignored in a change."""
    from_ts: Seq | None = None
    """Instead of `from`: start at the first record with `$ts` at or above this time, in milliseconds since the epoch."""

    def fields(self, state: str) -> dict[str, Any]:
        """Returns column values for the fields that are set, for a router in this state. Raises InvalidRequest."""
        names = ("preserve_node", "preserve_tag", "allow_cycle", "allow_fan_in", "guarantee")
        given = {name: value for name in names if (value := getattr(self, name)) is not UNSET}
        if self.filter is not UNSET:
            given["filter_op"], given["filter_tag"] = check_match(self.filter)
        if self.paused is not UNSET and self.paused != (state == Router.State.PAUSED):
            given["state"] = Router.State.PAUSED if self.paused else Router.State.RUNNING
        return given


class RouterPut(NamedTuple):
    """The router after a PUT, and whether the PUT created it."""

    router: StoredRouter
    created: bool


def put_router(name: str, config: RouterConfig, now: int, key: Key = OPEN) -> Script[RouterPut]:
    """Creates the router, or changes the fields that differ, with the rights of this key.

    Raises InvalidRequest, TopicNotFound (create_dest is false), Incompatible, RouterCycle, Throttled, or Forbidden (an end of the
    existing router is outside the key's prefixes). Then nothing changed.
    """
    check_router_name(name)
    check_topic_name(config.source, "source")
    check_topic_name(config.dest, "dest")
    if config.source == config.dest:
        raise InvalidRequest(f"source and dest are both {config.source!r}: choose two topics")
    put, waits = yield from atomically(put_locked(name, config, now, key))
    if put.created:
        for topic in (config.source, config.dest):
            forget(topic)
    if waits:
        yield from wake_source(put.router.source_id)
    return put


def put_locked(name: str, config: RouterConfig, now: int, key: Key) -> Script[tuple[RouterPut, bool]]:
    """Returns the outcome, and whether there may be something to forward now."""
    yield from graph.lock_graph()
    rows = yield Statement(FIND, (name,))
    if rows:
        router = StoredRouter(*rows[0])
        router.check_ends(key)
        waits = yield from change_router(router, config)
    else:
        yield from create_router(name, config, now)
        waits = config.start != "head" or config.from_ts is not None
    return RouterPut((yield from find(name)), not rows), waits


def wake_source(source_id: int) -> Script[None]:
    """Wakes a worker for the routers of a source, after one was created, resumed or changed."""
    rows = yield Statement(HEAD, (source_id,))
    if rows:
        wake.announce(source_id, rows[0][0], routed=True)


def create_router(name: str, config: RouterConfig, now: int) -> Script[None]:
    fields = config.fields(Router.State.RUNNING)
    ((routers,),) = yield Statement(COUNT)
    limits.check("routers", settings.TOPICS_MAX_ROUTERS, routers, limits.LATER)
    hooks.value.check_dest(config.dest)
    source_id = yield from locked_topic(config.source, True, now)
    dest_id = yield from locked_topic(config.dest, config.create_dest, now, is_dest=True)
    yield from check_fan_in(source_id, dest_id, config.dest, fields.get("allow_fan_in", False))
    if not fields.get("allow_cycle", False):
        yield from graph.check_no_cycle(source_id, dest_id)
    seq = yield from start_seq(source_id, config, now)
    ((cursor_id,),) = yield Statement(
        owned_cursors.INSERT, {"topic_id": source_id, "kind": "router", "name": name, "seq": seq, "now": now}
    )
    ends = {"name": name, "source_id": source_id, "dest_id": dest_id, "cursor_id": cursor_id, "now": now}
    yield Statement(INSERT, {**DEFAULTS, **fields, **ends})
    router = yield from find(name)
    yield from mark_cyclic(router)
    yield from touch([source_id, dest_id])
    yield from audit.note("create", "router", name, after=router.config())


def locked_topic(name: str, create: bool, now: int, *, is_dest: bool = False) -> Script[int]:
    """Locks a topic and returns its id. If `create`, a missing topic is created with all defaults.

    Raises TopicNotFound, or Incompatible for a dest that must compare the tag of each record with its jobs.
    """
    rows = yield Statement(LOCK_TOPIC, (name,))
    if not rows and create:
        yield from insert_topic(name, {}, now)
        rows = yield Statement(LOCK_TOPIC, (name,))
    if not rows:
        raise absent(name)
    topic_id, unique_tags = rows[0]
    if is_dest and unique_tags:
        raise Incompatible(
            f"queue {name!r} has unique_tags, and a router cannot leave out jobs: choose another dest", topic=name
        )
    return int(topic_id)


def check_fan_in(source_id: int, dest_id: int, dest: str, allow_fan_in: bool) -> Script[None]:
    """Raises DestFanIn if the dest has another source and not all routers into the dest allow several sources."""
    rows = yield Statement(OTHER_SOURCE, (dest_id, source_id))
    if rows:
        ((source, router, allows),) = rows
        if not (allow_fan_in and allows):
            raise DestFanIn.of(dest=dest, source=source, router=router)


def start_seq(source_id: int, config: RouterConfig, now: int) -> Script[int]:
    """Returns the seq after which a new router starts. Records lost before are not losses of the router."""
    ((floor_seq, head_seq, before_ts),) = yield Statement(
        ENDS, {"now": now, "from_ts": config.from_ts or 0, "topic_id": source_id}
    )
    if config.from_ts is not None:
        return max(before_ts, floor_seq)
    match config.start:
        case "head":
            return int(head_seq)
        case "earliest":
            return int(floor_seq)
        case seq:
            return max(min(int(seq), head_seq), floor_seq)


def change_router(router: StoredRouter, config: RouterConfig) -> Script[bool]:
    """Saves the fields that differ. Returns whether any did. The caller holds the graph's lock."""
    if (config.source, config.dest) != (router.source, router.dest):
        raise LeadsElsewhere.of(router=router.name, source=router.source, dest=router.dest)
    stale: list[graph.Member] = []
    if config.allow_cycle not in (UNSET, router.allow_cycle):
        stale = yield from graph.stale(allows={router.id: bool(config.allow_cycle)})
    # A running advance of this router uses the old config, and ends before the config changes. The cursors of other routers whose
    # `cyclic` will change are locked in the same statement. An advance holds several cursors, so two statements could deadlock.
    yield from lock_cursors([router.cursor_id, *(each.cursor_id for each in stale)])
    ((state,),) = yield Statement(STATE, (router.id,))
    router = router._replace(state=state)
    changed = {name: value for name, value in config.fields(state).items() if getattr(router, name) != value}
    if not changed:
        return False
    if changed.get("allow_cycle") is False:
        yield from graph.check_no_cycle(router.source_id, router.dest_id)
    if changed.get("allow_fan_in") is False:
        yield from check_fan_in(router.source_id, router.dest_id, router.dest, False)
    after = router._replace(**changed)
    yield Statement(SAVE, {"id": router.id, **{name: getattr(after, name) for name in CHANGEABLE}})
    yield from audit.note_difference("router", router.name, router.config(), after.config())
    if stale:
        yield from flip_cyclic(stale)
        yield from write_on_heads(stale)
    return True


def set_paused(name: str, paused: bool) -> Script[StoredRouter]:
    """Pauses or resumes a router. Raises RouterNotFound."""
    router = yield from atomically(set_paused_locked(name, paused))
    yield from wake_source(router.source_id)
    return router


def set_paused_locked(name: str, paused: bool) -> Script[StoredRouter]:
    yield from graph.lock_graph()
    router = yield from find(name)
    yield from change_router(router, RouterConfig(source=router.source, dest=router.dest, paused=paused))
    return (yield from find(name))


def delete_router(name: str, key: Key = OPEN) -> Script[bool]:
    """Stops forwarding at once and deletes the router. Forwarded records stay. Returns False if it did not exist.

    Raises Forbidden.
    """
    router = yield from atomically(delete_locked(name, key))
    if router is None:
        return False
    for topic in (router.source, router.dest):
        forget(topic)
    return True


def delete_locked(name: str, key: Key) -> Script[StoredRouter | None]:
    yield from graph.lock_graph()
    rows = yield Statement(FIND, (name,))
    if not rows:
        return None
    router = StoredRouter(*rows[0])
    router.check_ends(key)
    yield from remove([router])
    yield from touch([router.source_id, router.dest_id])
    return router


def before_delete() -> Script[None]:
    """Locks the graph before a topic is deleted (topics/hooks.py)."""
    yield from graph.lock_graph()


def with_delete(topic_id: int, name: str, key: Key) -> Script[list[str]]:
    """Deletes the routers of a topic that is being deleted. Returns their names. The caller holds the graph's lock.

    Raises RouterOutsidePrefixes if the key may not see one of the routers.
    """
    rows = yield Statement(NAMING, {"id": topic_id})
    routers = [StoredRouter(*row) for row in rows]
    if hidden := sum(not router.seen_by(key) for router in routers):
        message = f"{name!r} has {hidden} routers that this key may not delete: use another key"
        raise RouterOutsidePrefixes(message, count=hidden)
    if routers:
        yield from remove(routers)
        yield from touch([end for router in routers for end in (router.source_id, router.dest_id)])
    return [router.name for router in routers]


def remove(routers: Sequence[StoredRouter]) -> Script[None]:
    """Deletes routers with their cursors, after running advances have ended. The caller holds the graph's lock."""
    on_cycle = any(router.cyclic for router in routers)  # otherwise the others stay as they are
    stale = (yield from graph.stale(gone=[router.id for router in routers])) if on_cycle else []
    cursors = [router.cursor_id for router in routers]
    yield from lock_cursors([*cursors, *(each.cursor_id for each in stale)])
    changes = [audit.Change(router.name, before=router.config()) for router in routers]
    yield from audit.note_all("delete", "router", changes)
    yield Statement(DELETE_ROUTERS, ([router.id for router in routers],))
    yield Statement(owned_cursors.DELETE, (cursors,))
    yield from flip_cyclic(stale)
    yield from write_on_heads([*routers, *stale])


def mark_cyclic(made: StoredRouter) -> Script[None]:
    """Updates `cyclic` and the heads' flags after a router was created. The caller holds the graph's lock."""
    stale = (yield from graph.stale()) if made.allow_cycle else []  # any other router closes no cycle
    yield from lock_cursors([each.cursor_id for each in stale])
    yield from flip_cyclic(stale)
    yield from write_on_heads([made, *stale])


def flip_cyclic(stale: Sequence[graph.Member]) -> Script[None]:
    """The caller holds the locks of their cursors, and then writes on their heads."""
    if stale:
        yield Statement(FLIP_CYCLIC, ([each.id for each in stale],))


def lock_cursors(cursor_ids: list[int]) -> Script[None]:
    """Waits for running advances of these cursors' routers. Until the commit, no other transaction writes these rows.

    Locks all cursors at once in order of id, because an advance also holds several. Locks them before any head, because an
    advance locks heads later (sql/functions/routers_advance.sql).
    """
    if cursor_ids:
        yield Statement(owned_cursors.LOCK, (cursor_ids,))


def write_on_heads(routers: Sequence[StoredRouter | graph.Member]) -> Script[None]:
    """Updates the flags about routers on the heads at both ends of these routers, which were created, changed or deleted.

    The caller holds the graph's lock until the commit, so no other transaction changes routers meanwhile. The caller locks no
    more cursors, because cursors come before heads. Locks all heads at once in order of id, like all code. `touch` later finds
    its heads already locked.
    """
    ids = sorted({end for router in routers for end in (router.source_id, router.dest_id)})
    yield Statement(LOCK_HEADS, (ids,))
    yield Statement(SAVE_FACTS, (ids,))


def touch(topic_ids: list[int]) -> Script[None]:
    """Makes every process read these topics again, because routers from or to them were created or deleted.

    Locks their heads in order.
    """
    yield Statement(LOCK_HEADS, (topic_ids,))
    yield Statement(OUTDATE, (topic_ids,))
