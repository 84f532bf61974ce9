"""Random graphs, writes, deletes, evictions, pauses and re-creations, step by step against the model (model.py).

Each example runs in a transaction of its own that is rolled back: one connection does everything, in the order the
model does it. What several at once do to each other is in tests/log/test_concurrency.py.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from django.db import connection, transaction
from hypothesis import note
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from base.errors import DestFanIn, Incompatible, RouterCycle, TopicFull
from routers import advance
from routers import routers as domain
from routers.models import Router as RouterRow
from store.database import prepared
from store.script import Script, atomically, run
from tests import scripts
from tests.examples import examples
from tests.routers.model import Entry, Router, Topic, World
from tests.scripts import delete_topic, look_up, put_topic, record
from topics.append.judged import append_once
from topics.append.records import Append, NewRecord, Rows, check_rows
from topics.cache import CachedTopic
from topics.config import Config
from topics.delete.records import delete_once
from topics.models import DeletedTopic, Record, Span, TopicHead
from topics.read.describe import ONE
from topics.read.diff import Diff, Window, check_match, statement
from topics.upkeep import reclaim, retention

NOW = 1_748_470_000_000
TOPICS = ["a", "b", "c", "d", "e"]
ROUTERS = [f"r{number}" for number in range(8)]
STEPS = 40

DUE = """
SELECT r.id, c.seq, r.errors_total FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id
  JOIN topics_topichead head ON head.topic_id = r.source_id
 WHERE r.source_id = %s AND (%s::bigint IS NULL OR r.dest_id = %s) AND c.seq < head.head_seq AND router_due(r, %s)
 ORDER BY r.id
"""
MOVED = """
SELECT c.seq, r.errors_total, r.last_error FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id WHERE r.id = %s
"""

# Source and dest by name: a chain, a tree, rings, mirrors, a diamond, a hub, parallel routers, a mesh.
GRAPHS = [
    "ab bc cd de",
    "ab ac bd be",
    "ab bc cd da",
    "ab ba",
    "ab ba bc cb",
    "ab bc ca ba cb ac",
    "ab ac bd cd de",
    "ac bc cd dc ca cb",
    "ab ab ab bc bc",
    "ab ac ad ba bc bd ca cb",
    "ab ab ba bc ca",
]

topics = st.sampled_from(TOPICS)
routers = st.sampled_from(ROUTERS)
tags = st.sampled_from([None, "p:1", "p:2", "q"])
nodes = st.sampled_from([None, "n1", "n2"])
matches = st.sampled_from([None, ("tag", "Eq", "p:1"), ("tag", "Glob", "p:*"), "q"])
new_records = st.lists(st.tuples(nodes, tags, st.integers(0, 30)), min_size=1, max_size=6)
configs = st.fixed_dictionaries(
    {},
    optional={
        "ttl_ms": st.sampled_from([0, 50, 200]),
        "cap_records": st.sampled_from([0, 1, 4, 10]),
        "cap_bytes": st.sampled_from([0, 60, 200]),
        "discard": st.sampled_from(["old", "reject"]),
    },
)
options = st.fixed_dictionaries(
    {},
    optional={
        "preserve_node": st.booleans(),
        "preserve_tag": st.booleans(),
        "filter": matches,
        "guarantee": st.sampled_from(["at_least_once", "exactly_once"]),
    },
)
seldom = st.integers(0, 9).map(lambda number: number == 9)


def query(sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, arguments)
        return cursor.fetchall()


class Forwarding(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.world = World()
        self.now = NOW

    def teardown(self) -> None:
        try:
            self.settle()
            self.reclaim_everything()
        finally:
            transaction.set_rollback(True)
            self.atomic.__exit__(None, None, None)

    def topic(self, name: str) -> Topic | None:
        return next((topic for topic in self.world.topics.values() if topic.name == name), None)

    def router(self, name: str) -> Router | None:
        return next((router for router in self.world.routers.values() if router.name == name), None)

    def learn(self, name: str) -> Topic:
        """The topic as the model has it, made when the store just made it with all defaults."""
        if (topic := self.topic(name)) is None:
            last_head = self.world.last_heads.get(name, 0)
            topic = Topic(look_up(name).id, name, floor=last_head, recreated=last_head)
            self.world.topics[topic.id] = topic
            self.world.names[topic.id] = name
        return topic

    @initialize(
        graph=st.sampled_from(GRAPHS),
        chosen=st.lists(options, min_size=8, max_size=8),
        like=st.sampled_from(["plain", "once", "any"]),
        max_hops=st.sampled_from([1, 2, 3, 8]),
    )
    def build(self, graph: str, chosen: list[dict[str, Any]], like: str, max_hops: int) -> None:
        self.world.max_hops = max_hops
        given: dict[str, dict[str, Any]] = {"plain": {}, "once": {"guarantee": "exactly_once"}}
        for name, ends, options in zip(ROUTERS, graph.split(), chosen, strict=False):
            self.put_router(name, ends[0], ends[1], given.get(like, options), True, False, "earliest", 0)
            if self.router(name) is None:  # refused: it closes a cycle
                self.put_router(name, ends[0], ends[1], given.get(like, options), True, True, "earliest", 0)

    @initialize(configured=st.lists(st.tuples(topics, configs), max_size=2))
    def limit(self, configured: list[tuple[str, dict[str, Any]]]) -> None:
        for name, config in configured:
            self.configure(name, config)

    # -- Topics

    def configure(self, name: str, config: dict[str, Any]) -> None:
        row, _ = put_topic(name, Config(**config), self.now)
        topic = self.learn(name)
        changed = (row.ttl_ms, row.cap_records, row.cap_bytes, row.discard == "reject")
        if changed != (topic.ttl_ms, topic.cap_records, topic.cap_bytes, topic.reject):
            topic.expire(self.now)
            topic.ttl_ms, topic.cap_records, topic.cap_bytes, topic.reject = changed
            topic.expire(self.now)
            if not topic.reject:
                topic.evict()

    @rule(name=topics, new=new_records)
    def append(self, name: str, new: list[tuple[str | None, str | None, int]]) -> None:
        put_topic(name, Config(), self.now)
        topic = self.learn(name)
        data = [(node, tag, json.dumps("x" * size)) for node, tag, size in new]
        wanted = Append([NewRecord(msgspec.Raw(text.encode()), tag, node) for node, tag, text in data])
        try:
            run(atomically(self.written(look_up(name), check_rows(wanted))))
            accepted = True
        except TopicFull:
            accepted = False
        assert accepted == topic.append(data, self.now)

    def written(self, topic: CachedTopic, rows: Rows) -> Script[None]:
        """An append of the moment that the model is at."""
        yield from append_once(topic, Append([]), rows, self.now)

    @rule(name=topics, before=st.none() | st.integers(1, 40), match=matches)
    def delete_records(self, name: str, before: int | None, match: Any) -> None:
        topic = self.topic(name)
        if topic is None or (before is None and match is None):
            return
        op, literal = check_match(match)
        done = run(atomically(delete_once(look_up(name), before, op, literal, self.now)))
        assert done.deleted == topic.delete(before, (op, literal or "") if op else None, self.now)

    def drop_topic(self, name: str) -> None:
        topic = self.topic(name)
        deleted, removed = delete_topic(name, False, self.now)
        assert deleted == (topic is not None)
        if topic is not None:
            assert removed == self.world.delete_topic(topic.id)

    # -- Routers

    def put_router(
        self,
        name: str,
        source: str,
        dest: str,
        chosen: dict[str, Any],
        fan_in: bool,
        allow_cycle: bool,
        start: str,
        seq: int,
    ) -> None:
        if source == dest:
            return
        known = self.router(name)
        if known is not None:  # a PUT of another source or dest is refused: test_put.py
            source, dest = self.world.names[known.source], self.world.names[known.dest]
        config = domain.RouterConfig(
            source,
            dest,
            allow_fan_in=fan_in,
            allow_cycle=allow_cycle,
            start=seq if start == "seq" else "earliest" if start == "earliest" else "head",
            from_ts=NOW + seq * 10 if start == "ts" else None,
            **chosen,
        )
        refused = self.refusal(name, source, dest, fan_in, allow_cycle)
        try:
            with transaction.atomic():
                put = scripts.put_router(name, config, self.now)
        except (RouterCycle, Incompatible) as error:
            assert type(error) is refused, error
            return
        assert refused is None
        assert put.created == (known is None)
        row = put.router
        if known is None:
            ends = self.learn(source), self.learn(dest)
            known = Router(row.pk, name, ends[0].id, ends[1].id, cursor=self.start_of(ends[0], config))
            self.world.routers[row.pk] = known
        known.keep_node, known.keep_tag = row.preserve_node, row.preserve_tag
        known.match = (row.filter_op, row.filter_tag or "") if row.filter_op else None
        known.allow_cycle, known.allow_fan_in = row.allow_cycle, row.allow_fan_in
        known.once, known.paused = row.guarantee == "exactly_once", row.state == "paused"
        note(f"{known} {row.cursor.seq=}")
        assert known.cursor == row.cursor.seq

    def refusal(self, name: str, source: str, dest: str, fan_in: bool, allow_cycle: bool) -> type[Exception] | None:
        called = self.world.names
        others = [r for r in self.world.routers.values() if called[r.dest] == dest and called[r.source] != source]
        fan_in_refused = any(not (fan_in and other.allow_fan_in) for other in others)
        ends = self.topic(source), self.topic(dest)
        cycle_refused = not allow_cycle and all(ends) and self.world.reaches(ends[1].id, ends[0].id)
        known = self.router(name)
        if known is None:
            return DestFanIn if fan_in_refused else RouterCycle if cycle_refused else None
        if cycle_refused and known.allow_cycle:
            return RouterCycle
        return DestFanIn if known.allow_fan_in and not fan_in and others else None

    def start_of(self, source: Topic, config: domain.RouterConfig) -> int:
        view = source.at(self.now)
        if config.from_ts is not None:
            older = [entry.seq for entry in source.entries if entry.ts < config.from_ts]
            return max(older[-1] if older else 0, view.floor)
        if isinstance(config.start, int):
            return max(min(config.start, view.head), view.floor)
        return view.head if config.start == "head" else view.floor

    def pause(self, name: str, paused: bool) -> None:
        if (router := self.router(name)) is not None:
            scripts.set_paused(name, paused)
            router.paused = paused

    def delete_router(self, name: str) -> None:
        router = self.router(name)
        assert scripts.delete_router(name) == (router is not None)
        if router is not None:
            del self.world.routers[router.id]

    @rule(
        name=routers,
        ends=st.permutations(TOPICS),
        chosen=options,
        fan_in=seldom.map(lambda no: not no),
        allow_cycle=seldom.map(lambda no: not no),
        start=st.sampled_from(["head", "earliest", "seq", "ts"]),
        seq=st.integers(0, 20),
    )
    def route(
        self, name: str, ends: list[str], chosen: dict[str, Any], fan_in: bool, allow_cycle: bool, start: str, seq: int
    ) -> None:
        self.put_router(name, ends[0], ends[1], chosen, fan_in, allow_cycle, start, seq)

    @rule(
        what=st.sampled_from(["again", "again", "pause", "resume", "delete_router"]),
        name=routers,
        start=st.integers(0, 9),
    )
    def meddle(self, what: str, name: str, start: int) -> None:
        router = self.router(name)
        if what in ("pause", "resume"):
            self.pause(name, what == "pause")
        elif what == "delete_router" or router is None:
            self.delete_router(name)
        elif router is not None:  # made anew, as it was, from the beginning or from a seq
            ends = self.world.names[router.source], self.world.names[router.dest]
            chosen = {"guarantee": "exactly_once" if router.once else "at_least_once"}
            self.delete_router(name)
            self.put_router(name, *ends, chosen, True, True, "seq" if start > 5 else "earliest", start)

    @rule(name=topics, config=configs, what=st.sampled_from(["configure", "configure", "delete"]))
    def change_topic(self, name: str, config: dict[str, Any], what: str) -> None:
        if what == "configure":
            self.configure(name, config)
        else:
            self.drop_topic(name)

    # -- Time, and what runs by itself

    @rule(name=topics, new=new_records, limit=st.sampled_from([2, 10_000]))
    def append_and_advance(self, name: str, new: list[tuple[str | None, str | None, int]], limit: int) -> None:
        self.append(name, new)
        self.advance(name, limit)

    @rule(limit=st.sampled_from([1, 2, 3, 5, 10_000]))
    def advance_all(self, limit: int) -> None:
        for name in TOPICS:
            self.advance(name, limit)

    @rule(name=topics, limit=st.sampled_from([1, 2, 3, 5, 10_000]))
    def advance(self, name: str, limit: int) -> None:
        if (topic := self.topic(name)) is not None:
            self.step(topic.id, None, False, limit)

    def step(self, source_id: int, dest_id: int | None, wait: bool, limit: int) -> list[tuple[Any, ...]]:
        """Advance, and have the model do the same, router by router in the order they were made."""
        due = query(DUE, source_id, dest_id, dest_id, self.now)
        rows = prepared(advance.ADVANCE, (source_id, dest_id, wait, limit, self.now, self.world.max_hops))
        self.follow(due)
        return rows

    def follow(self, due: list[tuple[Any, ...]]) -> None:
        for id, before, errors in due:
            router = self.world.routers[id]
            assert not router.paused
            seq, errors_now, error = query(MOVED, id)[0]
            if errors_now > errors:
                assert "is full" in error
                assert not self.world.forward(router, self.world.topics[router.source].head, self.now)
            elif seq > before:
                assert self.world.forward(router, seq, self.now)
            assert router.cursor == seq

    @rule(name=topics)
    def catch_up(self, name: str) -> None:
        """A reader first advances what lies upstream, hop by hop."""
        if (topic := self.topic(name)) is None:
            return
        steps = advance.catching_up(topic.id, self.now)
        sql, arguments, *_ = next(steps)
        try:
            while True:
                if sql is advance.ADVANCE:
                    rows = self.step(arguments[0], arguments[1], arguments[2], arguments[3])
                else:  # which advances a lone hop by itself
                    sources = {router.source for router in self.world.routers.values() if router.dest == topic.id}
                    due = [row for source in sources for row in query(DUE, source, topic.id, topic.id, self.now)]
                    rows = prepared(sql, arguments)
                    self.follow(due)
                sql, arguments, *_ = steps.send(rows)
        except StopIteration:
            pass
        for router in self.world.routers.values():
            if self.world.reaches(router.dest, topic.id):
                self.check_idle(router)

    def check_idle(self, router: Router) -> None:
        """It has nothing to do, or says why it cannot."""
        if router.paused or router.cursor == self.world.topics[router.source].head:
            return
        assert RouterRow.objects.get(pk=router.id).state == "blocked", router

    @rule(ms=st.sampled_from([10, 40, 100, 300]))
    def tick(self, ms: int) -> None:
        self.now += ms

    @rule(name=topics)
    def expire(self, name: str) -> None:
        if (topic := self.topic(name)) is None:
            return
        retention.expire(topic.id, self.now)
        topic.drop(topic.expired(self.now), "ttl")

    @rule(limit=st.sampled_from([1, 2, 5, 2_000]))
    def reclaim(self, limit: int) -> None:
        for topic_id in reclaim.due(self.now + reclaim.REST_MS):
            reclaim.reclaim(topic_id, self.now, limit)
        for topic in self.world.topics.values():
            if not self.world.remembers(topic):
                self.forget(topic)

    def forget(self, topic: Topic) -> None:
        """What reclaim has dropped of it, which is up to reclaim where no cycle leads in."""
        spans = Span.objects.filter(topic_id=topic.id).values_list("first_seq", "last_seq")
        kept = {seq for first, last in spans for seq in range(first, last + 1)}
        for entry in topic.entries[: topic.floor]:
            entry.forgotten |= entry.seq not in kept

    @rule(name=topics, from_seq=st.integers(0, 60), limit=st.sampled_from([1, 2, 5, 1000]), own=nodes)
    def read(self, name: str, from_seq: int, limit: int, own: str | None) -> None:
        if (topic := self.topic(name)) is not None:
            self.check_window(topic, from_seq, limit, own)

    @rule(name=topics, seq=st.integers(1, 60))
    def lineage(self, name: str, seq: int) -> None:
        topic = self.topic(name)
        shown = {entry.seq: entry for entry in topic.at(self.now).shown()} if topic else {}
        if (entry := shown.get(seq)) is not None and entry.payload is not None:
            found = record(name, seq, self.now)
            assert json.loads(found.record)["$seq"] == seq
            assert (found.home, found.home_seq) == (self.world.names[entry.payload.home], entry.payload.seq)
            assert tuple(found.routers) == entry.path

    # -- What has to be true

    @invariant()
    def topics_hold_what_the_model_says(self) -> None:
        for topic in self.world.topics.values():
            view = topic.at(self.now)
            assert self.state(topic) == (view.head, view.floor + 1, view.count, view.bytes)
            self.check_window(topic, 0, 1000, None)
        for router in self.world.routers.values():
            row = RouterRow.objects.get(pk=router.id)
            assert row.cyclic == self.world.cyclic(router)

    def state(self, topic: Topic) -> tuple[int, int, int, int]:
        with connection.cursor() as cursor:
            known = look_up(topic.name)
            cursor.execute(ONE, [known.expired_ts(self.now), known.id, known.version])
            head_seq, earliest_seq, records, payload, *_ = cursor.fetchone()
        return head_seq, earliest_seq, records, int(payload)

    def check_window(self, topic: Topic, from_seq: int, limit: int, own: str | None) -> None:
        wanted = Diff(from_seq=from_seq, limit=limit, node=own, include_tags=True)
        asked = statement(look_up(topic.name), wanted, self.now)
        found = Window(*query(asked.sql, *asked.arguments)[0])
        told = topic.diff(from_seq, limit, {own} if own else set(), self.now)
        shown = {entry.seq: entry for entry in topic.entries}
        assert json.loads(f"[{found.records or ''}]") == [self.rendered(shown[seq]) for seq in told.seqs]
        assert (found.next_from_seq, found.head_seq, found.earliest_seq) == (
            told.next_from_seq,
            told.head_seq,
            told.earliest_seq,
        )
        assert (found.lost, found.gap_to) == (told.lost, told.gap_to)

    def rendered(self, entry: Entry) -> dict[str, Any]:
        assert entry.payload is not None
        wire: dict[str, Any] = {"$seq": entry.seq, "$ts": entry.ts, "data": json.loads(entry.payload.data)}
        if entry.node is not None:
            wire["$node"] = entry.node
        if entry.tag is not None:
            wire["$tag"] = entry.tag
        if entry.stamp is not None:
            router, source, seq = entry.stamp
            wire["meta"] = {
                "_topics_router": {
                    "router": router,
                    "source": self.world.names[source],
                    "source_topic_id": source,
                    "source_epoch": source,
                    "source_seq": seq,
                    "key": f"{router}:{source}:{seq}",
                }
            }
        return wire

    def settle(self) -> None:
        """Advance everything until nothing moves: then each router is idle, or its dest is full."""
        self.now += 10_000
        sources = {router.source for router in self.world.routers.values()}
        moving = True
        while moving:
            moving = any(bool(self.step(source, None, False, 10_000)) for source in sorted(sources))
        for router in self.world.routers.values():
            self.check_idle(router)
        self.topics_hold_what_the_model_says()

    def reclaim_everything(self) -> None:
        """Then what is stored is what is shown, and of a deleted topic nothing is known that nobody shows."""
        for topic in self.world.topics.values():
            retention.expire(topic.id, self.now)
            topic.expire(self.now)
        for _ in range(3):
            self.now += reclaim.AGAIN_MS
            while any(reclaim.reclaim(topic_id, self.now).removed for topic_id in reclaim.due(self.now)):
                pass
        rows = Record.objects.filter(topic_id__in=self.world.names)
        assert set(rows.values_list("topic_id", "seq")) == self.world.stored()
        assert set(DeletedTopic.objects.values_list("id", flat=True)) <= {home for home, _ in self.world.stored()}
        floors = dict(TopicHead.objects.values_list("topic_id", "floor_seq"))
        for span in Span.objects.filter(home_id__isnull=False):
            assert span.topic_id in floors
            remembered = RouterRow.objects.filter(dest_id=span.topic_id, cyclic=True).exists()
            assert span.last_seq > floors[span.topic_id] or remembered


@pytest.mark.django_db
def test_topics_hold_what_the_model_says() -> None:
    run_state_machine_as_test(
        Forwarding,
        settings=hypothesis_settings(
            max_examples=examples(5),
            stateful_step_count=STEPS,
        ),
    )
