"""Create, change, pause and delete routers (seeds/000, contract.md section 6)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from msgspec import UNSET, Meta, UnsetType

from base.errors import DestFanIn, Forbidden, Incompatible, InvalidRequest, RouterNotFound
from base.names import check_router_name, check_topic_name
from routers import graph
from routers.models import Router
from topics import audit, wake
from topics.cache import absent, forget
from topics.config import insert_topic
from topics.diff import Match, Seq, check_match
from topics.models import Cursor, Topic, TopicHead
from wire import limits
from wire.keys import OPEN, Key

# Where a source begins and ends for a reader right now, and the last seq below a time.
ENDS = """
SELECT greatest(floor_seq, CASE WHEN ttl_ms > 0 THEN topic_seq_at(topic_id, floor_seq, head_seq, %(now)s - ttl_ms) - 1 END),
       head_seq, topic_seq_at(topic_id, floor_seq, head_seq, %(from_ts)s) - 1
  FROM topics_topichead JOIN topics_topic ON id = topic_id
 WHERE topic_id = %(source_id)s
"""
# By the indexes on source and dest.
WRITE_ON_HEADS = """
UPDATE topics_topichead head
   SET routed = EXISTS (SELECT FROM routers_router WHERE source_id = head.topic_id),
       derived = EXISTS (SELECT FROM routers_router WHERE dest_id = head.topic_id),
       keeps_evidence = EXISTS (SELECT FROM routers_router WHERE dest_id = head.topic_id AND cyclic)
 WHERE topic_id = ANY (%s)
"""


class RouterConfig(msgspec.Struct):
    """The body of a PUT. `from`, `from_ts`, `allow_fan_in` and `paused` are ours."""

    source: str
    dest: str
    preserve_node: bool | UnsetType = UNSET
    preserve_tag: bool | UnsetType = UNSET
    create_dest: bool = True
    filter: Match | UnsetType | None = UNSET
    allow_cycle: bool | UnsetType = UNSET
    allow_fan_in: bool | UnsetType = UNSET
    guarantee: Literal["at_least_once", "exactly_once"] | UnsetType = UNSET
    paused: bool | UnsetType = UNSET
    start: Literal["head", "earliest"] | Annotated[int, Meta(ge=0, le=2**63 - 1)] = msgspec.field(
        default="head", name="from"
    )
    from_ts: Seq | None = None

    def fields(self, state: str) -> dict[str, Any]:
        """Column values for what is set, for a router in that state. Raises InvalidRequest."""
        names = ("preserve_node", "preserve_tag", "allow_cycle", "allow_fan_in", "guarantee")
        given = {name: value for name in names if (value := getattr(self, name)) is not UNSET}
        if self.filter is not UNSET:
            given["filter_op"], given["filter_tag"] = check_match(self.filter)
        if self.paused is not UNSET and self.paused != (state == Router.State.PAUSED):
            given["state"] = Router.State.PAUSED if self.paused else Router.State.RUNNING
        return given


class Put(NamedTuple):
    """What a PUT did."""

    router: Router
    created: bool


def config_of(router: Router) -> dict[str, Any]:
    """A router as answers show it. Its source and dest must be loaded."""
    return {
        "router": router.name,
        "source": router.source.name,
        "dest": router.dest.name,
        "preserve_node": router.preserve_node,
        "preserve_tag": router.preserve_tag,
        "filter": filter_of(router),
        "allow_cycle": router.allow_cycle,
        "guarantee": router.guarantee,
        "allow_fan_in": router.allow_fan_in,
        "paused": router.state == Router.State.PAUSED,
    }


def filter_of(router: Router) -> list[str] | None:
    if router.filter_op is None:
        return None
    return ["tag", router.filter_op, (router.filter_tag or "") + ("*" if router.filter_op == "Glob" else "")]


def may_see(router: Router, key: Key) -> bool:
    """Whether the router's name and both its ends lie within the key's prefixes."""
    return all(key.allows(name) for name in (router.name, router.source.name, router.dest.name))


def check_ends(router: Router, key: Key) -> None:
    """Raises Forbidden when one of the router's ends lies outside the key's prefixes. It does not say which topic that is."""
    if not may_see(router, key):
        raise Forbidden(f"{router.name!r} leads from or to a topic outside this key's prefixes", router=router.name)


def put_router(name: str, config: RouterConfig, now: int, key: Key = OPEN) -> Put:
    """Create the router or change what differs, on behalf of this key.

    Raises InvalidRequest, TopicNotFound (create_dest is false), Incompatible, RouterCycle, Forbidden (the router there is leads
    from or to what the key may not see) or Throttled: nothing changed.
    """
    check_router_name(name)
    check_topic_name(config.source, "source")
    check_topic_name(config.dest, "dest")
    if config.source == config.dest:
        raise InvalidRequest(f"source and dest are both {config.source!r}: a router leads to another topic")
    with transaction.atomic():
        graph.lock_graph()
        router = Router.objects.select_related("source", "dest").filter(name=name).first()
        if router is None:
            router = create_router(name, config, now)
            return Put(router, True)
        check_ends(router, key)
        change_router(router, config)
    return Put(router, False)


def create_router(name: str, config: RouterConfig, now: int) -> Router:
    fields = config.fields(Router.State.RUNNING)
    limits.check("routers", settings.TOPICS_MAX_ROUTERS, Router.objects.count())
    source = topic(config.source, True, now)
    dest = topic(config.dest, config.create_dest, now)
    check_fan_in(source, dest, fields.get("allow_fan_in", False))
    if not fields.get("allow_cycle", False):
        graph.check_no_cycle(source.pk, dest.pk)
    cursor = Cursor.objects.create(
        topic=source, kind=Cursor.Kind.ROUTER, name=name, seq=start_seq(source, config, now), updated_ts=now
    )
    router = Router.objects.create(name=name, source=source, dest=dest, cursor=cursor, created_ts=now, **fields)
    mark_cyclic(router)
    touch(source, dest)
    audit.note("create", "router", name, after=config_of(router))
    if config.start != "head" or config.from_ts is not None:
        head_seq = TopicHead.objects.get(pk=source.pk).head_seq
        transaction.on_commit(lambda: wake.announce(source.pk, head_seq, routed=True))
    return router


def topic(name: str, create: bool, now: int) -> Topic:
    """The topic, made with all defaults when it is absent and may be. Raises TopicNotFound."""
    if create and not Topic.objects.filter(name=name).exists():
        insert_topic(name, {}, now)
    # Locked, so that nobody deletes it while a router is about to name it.
    found = Topic.objects.select_for_update(no_key=True).filter(name=name).first()
    if found is None:
        raise absent(name)
    return found


def check_fan_in(source: Topic, dest: Topic, allow_fan_in: bool) -> None:
    """A derived dest has one source, unless all its routers allow several. Raises DestFanIn."""
    others = Router.objects.filter(dest=dest).exclude(source=source)
    other = others.select_related("source").order_by("allow_fan_in").first()
    if other is not None and not (allow_fan_in and other.allow_fan_in):
        raise DestFanIn(dest.name, other.source.name, other.name)


def start_seq(source: Topic, config: RouterConfig, now: int) -> int:
    """Where a new router begins: after this seq. What was lost before there was a router is no loss of its."""
    with connection.cursor() as cursor:
        cursor.execute(ENDS, {"now": now, "from_ts": config.from_ts or 0, "source_id": source.pk})
        floor_seq, head_seq, before_ts = cursor.fetchone()
    if config.from_ts is not None:
        return max(before_ts, floor_seq)
    match config.start:
        case "head":
            return head_seq
        case "earliest":
            return floor_seq
        case seq:
            return max(min(int(seq), head_seq), floor_seq)


def change_router(router: Router, config: RouterConfig) -> None:
    """Save what differs. The caller holds the graph."""
    if (config.source, config.dest) != (router.source.name, router.dest.name):
        raise Incompatible(
            f"router {router.name!r} leads from {router.source.name!r} to {router.dest.name!r}: delete it to lead elsewhere",
            source=router.source.name,
            dest=router.dest.name,
        )
    # Whoever advances this router right now does so by its old config, and is through before it changes.
    lock_cursors([router])
    router.refresh_from_db(fields=["state"])
    changed = {name: value for name, value in config.fields(router.state).items() if getattr(router, name) != value}
    if not changed:
        return
    if changed.get("allow_cycle") is False:
        graph.check_no_cycle(router.source_id, router.dest_id)
    if changed.get("allow_fan_in") is False:
        check_fan_in(router.source, router.dest, False)
    if "state" in changed:
        changed |= {"last_error": None, "retry_bytes": None, "retry_ms": 0, "retry_ts": 0}
    before = config_of(router)
    for name, value in changed.items():
        setattr(router, name, value)
    router.save(update_fields=list(changed))
    audit.note_difference("router", router.name, before, config_of(router))
    if "allow_cycle" in changed:
        mark_cyclic()
    source_id = router.source_id
    head_seq = TopicHead.objects.get(pk=source_id).head_seq
    transaction.on_commit(lambda: wake.announce(source_id, head_seq, routed=True))


def set_paused(name: str, paused: bool) -> Router:
    """Pause or resume. Raises RouterNotFound."""
    router = find(name)
    config = RouterConfig(source=router.source.name, dest=router.dest.name, paused=paused)
    with transaction.atomic():
        graph.lock_graph()
        change_router(router, config)
    return router


def find(name: str) -> Router:
    router = Router.objects.select_related("source", "dest", "cursor").filter(name=name).first()
    if router is None:
        raise RouterNotFound(f"there is no router {name!r}", router=name)
    return router


def delete_router(name: str, key: Key = OPEN) -> bool:
    """Stop forwarding at once and remove the router; what it forwarded stays. False: there was none. Raises Forbidden."""
    with transaction.atomic():
        graph.lock_graph()
        router = Router.objects.select_related("source", "dest").filter(name=name).first()
        if router is None:
            return False
        check_ends(router, key)
        remove([router])
        touch(router.source, router.dest)
    return True


def remove(routers: list[Router]) -> None:
    """Delete routers with their cursors, after whoever advances them is through. The caller holds the graph."""
    stale = graph.stale(gone=routers)
    lock_cursors([*routers, *stale])
    audit.note_all("delete", "router", [audit.Change(router.name, before=config_of(router)) for router in routers])
    Router.objects.filter(pk__in=[router.pk for router in routers]).delete()
    Cursor.objects.filter(pk__in=[router.cursor_id for router in routers]).delete()
    flip_cyclic(stale)
    write_on_heads([*routers, *stale])


def mark_cyclic(*made: Router) -> None:
    """Keep Router.cyclic, and what heads say of routers, true of the graph. The caller changed it and holds it."""
    stale = graph.stale()
    lock_cursors(stale)
    flip_cyclic(stale)
    write_on_heads([*made, *stale])


def flip_cyclic(routers: list[Router]) -> None:
    for cyclic in (True, False):
        Router.objects.filter(pk__in=[router.pk for router in routers if router.cyclic != cyclic]).update(cyclic=cyclic)


def lock_cursors(routers: list[Router]) -> None:
    """Wait for whoever advances these routers: nobody else writes their rows from here on. All at once, in order of id, since
    an advance holds several, too; and before any head, since an advance takes heads later (sql/routers_advance.sql)."""
    cursors = Cursor.objects.filter(pk__in=[router.cursor_id for router in routers])
    list(cursors.order_by("pk").select_for_update())


def write_on_heads(routers: list[Router]) -> None:
    """Write on the heads at both ends of these routers what the log has to know of routers, which were made, changed or deleted.

    The caller holds the graph, so nobody else changes routers before it commits, and no longer takes cursors, which come before
    heads. All heads at once, in order of id, as everybody takes them: `touch` finds those that it wants among them.
    """
    ids = sorted({end for router in routers for end in (router.source_id, router.dest_id)})
    list(TopicHead.objects.filter(pk__in=ids).order_by("pk").select_for_update())
    with connection.cursor() as cursor:
        cursor.execute(WRITE_ON_HEADS, [ids])


def touch(*topics: Topic) -> None:
    """Make every process look these topics up again: routers lead in or out, or no longer do."""
    ids = [topic.pk for topic in topics]
    list(TopicHead.objects.filter(pk__in=ids).order_by("pk").select_for_update())
    TopicHead.objects.filter(pk__in=ids).update(version=F("version") + 1)
    for topic in topics:
        transaction.on_commit(lambda name=topic.name: forget(name))
