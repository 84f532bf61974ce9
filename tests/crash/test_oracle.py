"""The harness's oracle finds each kind of violation that is planted into a history, and nothing in a clean one."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.crash.harness import captures, emit_oracle, webhook_oracle
from tests.crash.harness.evidence import (
    COMMITTED,
    UNDONE,
    UNKNOWN,
    Acked,
    Asked,
    CaptureEvidence,
    Claimed,
    Deleted,
    Delivered,
    Emit,
    Entry,
    Event,
    Evidence,
    Held,
    History,
    HookCall,
    HookEvidence,
    Letter,
    Log,
    Opened,
    Published,
    QueueEvidence,
    Reached,
    SiteEvidence,
    Told,
    Transaction,
    Trouble,
)
from tests.crash.harness.oracle import judge
from tests.crash.harness.topology import BY_CONSUMER, BY_TAG, DROP, KEEP, Router, Topic, Topology, Written
from tests.push.receiver import Batch

RECORDS = 10
TOPICS = [
    Topic("safe", "fsync", written="plain"),
    Topic("disk", written="plain"),
    Topic("memory", "memory", written="plain"),
    Topic("trimmed", written="plain", deleted=BY_TAG),
    Topic("capped", written="plain", cap_records=6),
    Topic("aging", written="plain", ttl_ms=1000),
    Topic("a", written="plain"),
    Topic("b", written="plain"),
    Topic("once"),
    Topic("kept"),
    Topic("latest", cap_records=4),
    Topic("copy"),
    Topic("inbox", deleted=BY_CONSUMER, cap_records=5, discard="reject"),
]
ROUTERS = [
    Router("once", "safe", "once", once=True),
    Router("kept", "disk", "kept", tag=KEEP),
    Router("latest", "safe", "latest"),
    Router("copy", "capped", "copy"),
    Router("inbox", "safe", "inbox"),
    Router("ab", "a", "b"),
    Router("ba", "b", "a"),
]


class Story(Evidence):
    """A run in which all went well: two records an append, one tag after the other, a reader of everything."""

    def __init__(self) -> None:
        super().__init__(Topology({topic.name: topic for topic in TOPICS}, ROUTERS))
        self.clock = count(1)
        for name in self.topology.topics:
            self.logs[name] = Log(name, 0, 1, 0, 0, [], [], 0)
            self.history("reader", name)
        for topic in self.topology.topics.values():
            if topic.written:
                self.write(topic)
        for router in ROUTERS:
            self.forward(router)
        self.lose()
        for name in self.topology.topics:
            self.settle(name)

    def write(self, topic: Topic) -> None:
        for number in range(RECORDS // 2):
            tag = (KEEP, DROP)[number % 2]
            pair = [Written(topic.name, "0", number, place, 2, tag, "left").data("xx") for place in range(2)]
            self.acks.append(Acked(next(self.clock), "writer", topic.name, 2 * number + 1, tuple(pair)))
            for data in pair:
                self.put(topic.name, data)

    def forward(self, router: Router) -> None:
        for entry in list(self.log(router.source)):
            if entry.data.startswith(f"{router.dest}/") or (router.tag and f"/{router.tag}/" not in entry.data):
                continue
            stamp = {"_topics_router": {"router": router.name, "source_seq": entry.seq}} if router.once else None
            self.put(router.dest, entry.data, stamp)

    def put(self, topic: str, data: str, meta: Any = None) -> None:
        log, reader = self.log(topic), self.of("reader", topic)
        seq = log[-1].seq + 1 if log else 1
        log.append(Entry(seq, data, meta))
        reader.events += [Delivered(next(self.clock), seq, data), Reached(next(self.clock), seq, seq)]

    def lose(self) -> None:
        """As caps, deletes and a crash do it, after the reader came by. A second one comes late, and is told."""
        for name, lost in (("capped", 4), ("latest", 6), ("memory", 6)):
            del self.log(name)[:lost]
            reason = "restart" if name == "memory" else "cap"
            self.history("late", name).events.append(Told(next(self.clock), 1, lost, reason))
        self.deletes += [Deleted(0, "trimmed", tag=DROP), Deleted(50, "inbox", 9)]
        self.log("trimmed")[:] = [entry for entry in self.log("trimmed") if f"/{DROP}/" not in entry.data]
        del self.log("inbox")[:8]
        self.history("late", "trimmed")
        self.history("late", "aging")
        for name in ("capped", "latest", "memory", "trimmed", "aging"):
            late = self.of("late", name)
            for entry in self.log(name):
                late.events.append(Delivered(next(self.clock), entry.seq, entry.data))
            late.events.append(Reached(next(self.clock), RECORDS, RECORDS))

    def settle(self, topic: str) -> None:
        """The records determine the head, the counters and the rows of SQL."""
        records, log = self.log(topic), self.logs[topic]
        log.head_seq = max(log.head_seq, self.of("reader", topic).events[-1].seq)
        log.earliest_seq = records[0].seq if records else log.head_seq + 1
        log.count, log.sql_records = len(records), list(records)
        log.bytes = log.sql_bytes = sum(len(entry.data) for entry in records)
        for history in self.histories:
            if history.topic == topic:
                history.position = log.head_seq

    def log(self, topic: str) -> list[Entry]:
        return self.logs[topic].records

    def of(self, who: str, topic: str) -> History:
        return next(each for each in self.histories if (each.who, each.topic) == (who, topic))

    def replace(self, topic: str, old: Callable[[Event], bool], *new: Event) -> None:
        """Changes the answers that the reader of a topic got."""
        reader = self.of("reader", topic)
        place = next(place for place, event in enumerate(reader.events) if old(event))
        reader.events[place : place + 1] = new


def rules(story: Story) -> set[tuple[str, str]]:
    return {(violation.rule, violation.topic) for violation in judge(story)}


def delivery(seq: int) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, Delivered) and event.seq == seq


def test_a_clean_history_passes() -> None:
    assert judge(Story()) == []


# -- Acked records -----------------------------------------------------------------------------------------------------


def test_an_fsync_ack_whose_record_is_not_there_is_found() -> None:
    story = Story()
    del story.log("safe")[4]
    story.settle("safe")
    assert ("acks survive", "safe") in rules(story)


def test_an_fsync_ack_whose_record_is_at_another_seq_is_found() -> None:
    story = Story()
    story.log("safe")[4], story.log("safe")[5] = (
        Entry(5, story.log("safe")[5].data),
        Entry(6, story.log("safe")[4].data),
    )
    assert {("acks survive", "safe"), ("one content", "safe")} <= rules(story)


def test_an_ack_above_the_head_is_found_for_every_durability() -> None:
    story = Story()
    data = Written("memory", "0", 99, 0, 1, KEEP, "left").data()
    story.acks.append(Acked(1, "writer", "memory", RECORDS + 1, (data,)))
    assert rules(story) == {("acks survive", "memory")}


def test_a_record_that_is_there_twice_is_found() -> None:
    story = Story()
    story.put("disk", story.log("disk")[0].data)
    story.settle("disk")
    assert ("nothing twice", "disk") in rules(story)


def test_half_an_append_is_found() -> None:
    story = Story()
    story.put("disk", Written("disk", "0", 99, 0, 2, DROP, "left").data())
    story.settle("disk")
    assert rules(story) == {("appends are atomic", "disk")}


# -- Shown records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["safe", "disk", "memory", "once", "a"])
def test_two_contents_at_a_seq_are_found_in_two_deliveries(topic: str) -> None:
    story = Story()
    other = Written("a", "0", 77, 0, 1, KEEP, "right").data()
    story.of("reader", topic).events += [Opened(90), Delivered(91, 3, other)]
    assert ("one content", topic) in rules(story)


def test_two_contents_at_a_seq_are_found_in_two_acks() -> None:
    story = Story()
    story.acks.append(Acked(91, "writer", "disk", 9, (Written("disk", "0", 77, 0, 1, KEEP, "left").data(),)))
    assert rules(story) == {("one content", "disk")}


def test_a_gap_that_nobody_told_is_found() -> None:
    story = Story()
    story.replace("disk", delivery(4))
    assert rules(story) == {("gaps are told", "disk")}


def test_a_cursor_that_moves_past_what_was_not_shown_is_found() -> None:
    story = Story()
    story.replace("safe", delivery(RECORDS))
    assert rules(story) == {("gaps are told", "safe")}


def test_a_gap_that_was_told_passes() -> None:
    """The tail of a crash: nobody was shown it before, and the topic goes on above."""
    story = Story()
    head = story.logs["disk"].head_seq
    story.of("reader", "disk").events.append(Told(80, head + 1, head + 50, "restart"))
    story.log("disk").append(Entry(head + 51, Written("disk", "1", 1, 0, 1, DROP, "left").data()))
    entry = story.log("disk")[-1]
    story.of("reader", "disk").events += [Delivered(81, *entry[:2]), Reached(82, entry.seq, entry.seq)]
    story.settle("disk")
    assert judge(story) == []


@pytest.mark.parametrize("told", [False, True])
def test_a_record_that_a_crash_took_has_to_be_told_to_its_reader(told: bool) -> None:
    story = Story()
    head = story.logs["disk"].head_seq
    data = Written("disk", "9", 9, 0, 1, DROP, "left").data()
    story.of("reader", "disk").events += [Delivered(80, head + 1, data), Reached(80, head + 1, head + 1)]
    lost_from = head + 1 if told else head + 2
    story.of("reader", "disk").events.append(Told(81, head + 2, head + 50, "restart", lost_from))
    story.of("reader", "disk").reached(head + 50, head + 50)
    story.logs["disk"].head_seq = head + 50
    story.settle("disk")
    assert ("losses are undone", "disk") in rules(story) or told


def test_a_deleted_record_need_not_be_told() -> None:
    story = Story()
    story.replace("trimmed", delivery(4))
    assert judge(story) == []


def test_a_record_that_nobody_deleted_has_to_be_shown_where_others_are_deleted() -> None:
    story = Story()
    story.replace("trimmed", delivery(5))
    assert rules(story) == {("gaps are told", "trimmed")}


def test_a_delete_that_comes_later_excuses_no_gap() -> None:
    story = Story()
    story.replace("inbox", delivery(4))
    story.deletes[-1] = Deleted(1e6, "inbox", 9)
    assert ("gaps are told", "inbox") in rules(story)


def test_own_records_are_left_out_without_a_word_and_never_shown() -> None:
    story = Story()
    own = story.history("left", "safe", frozenset({"left"}))
    own.events.append(Reached(90, RECORDS, RECORDS))
    own.position = RECORDS
    assert judge(story) == []
    own.events.append(Delivered(91, 3, story.log("safe")[2].data))
    assert ("own records stay away", "safe") in rules(story)


def test_seqs_that_come_again_or_in_another_order_are_found() -> None:
    story = Story()
    entry = story.log("disk")[2]
    story.of("reader", "disk").events.append(Delivered(90, *entry[:2]))
    assert rules(story) == {("order is kept", "disk")}


def test_a_reader_that_connects_again_may_be_shown_something_again() -> None:
    story = Story()
    entry = story.log("disk")[2]
    story.of("reader", "disk").events += [Opened(89), Delivered(90, *entry[:2])]
    assert judge(story) == []


def test_a_head_that_goes_back_is_found() -> None:
    story = Story()
    story.of("reader", "memory").events.append(Reached(90, RECORDS, RECORDS - 1))
    assert rules(story) == {("order is kept", "memory")}


def test_a_tombstone_for_what_is_there_is_found() -> None:
    story = Story()
    story.of("late", "capped").events.append(Told(90, 1, 7, "cap"))
    assert rules(story) == {("tombstones are true", "capped")}


def test_a_clock_that_was_ahead_may_have_told_too_much_of_a_ttl() -> None:
    story = Story()
    log = story.logs["aging"]
    story.of("late", "aging").events += [Told(90, 1, log.head_seq, "ttl")]
    assert judge(story) == []


@pytest.mark.parametrize(
    ("topic", "reason"), [("safe", "restart"), ("disk", "cap"), ("disk", "recreated"), ("once", "ttl")]
)
def test_a_tombstone_whose_reason_cannot_be_is_found(topic: str, reason: str) -> None:
    story = Story()
    head = story.logs[topic].head_seq
    story.of("reader", topic).events.append(Told(90, head + 1, head, reason))
    assert ("tombstones are true", topic) in rules(story)


def test_a_reader_who_is_stuck_is_found() -> None:
    story = Story()
    story.of("reader", "b").position -= 1
    assert rules(story) == {("readers arrive", "")}


@pytest.mark.parametrize(("topic", "strong"), [("safe", False), ("disk", True), ("kept", True)])
def test_a_delivery_that_was_to_stay_and_did_not_is_found(topic: str, strong: bool) -> None:
    """To anybody of an `fsync` topic, and to a strong watch of what is logged."""
    story = Story()
    data = Written("safe" if topic == "safe" else "disk", "9", 9, 0, 1, KEEP, "left").data()
    story.of("reader", topic).strong = strong
    head = story.logs[topic].head_seq
    story.of("reader", topic).events += [Delivered(90, head + 1, data), Reached(90, head + 1, head + 1)]
    story.logs[topic].head_seq += 1
    story.of("reader", topic).position += 1
    assert rules(story) == {("histories match the log", topic), ("losses are undone", topic)}


def test_a_held_head_that_holds_up_another_topic_is_found() -> None:
    story = Story()
    story.held.append(Held("safe", story.acks[0].at - 1, story.acks[-1].at + 1))
    assert judge(story) == []
    story.held.append(Held("safe", 1000, 1002))
    assert ("held heads hold up no other topic", "disk") in rules(story)


# -- Deliveries of the bus ---------------------------------------------------------------------------------------------


class Bus(Story):
    """Three events of one topic, of which the second was sent before the first was acked. One batch came twice."""

    def __init__(self) -> None:
        super().__init__()
        times = [(1, 3), (2, 4), (5, 6)]
        self.bus.published += [
            Published(sent, acked, "shop", "orders", n, "") for n, (sent, acked) in enumerate(times, 1)
        ]
        self.bus.topics["one"] = ["orders"]
        self.bus.batches["one"] = [batch("a", 500, 2, 1), batch("a", 200, 2, 1), batch("b", 200, 3)]


def batch(id: str, status: int, *numbers: int) -> Batch:
    events = [{"topic": "orders", "url": f"https://shop.example/{number}", "data": ""} for number in numbers]
    return Batch("/events", {"topics-batch-id": id}, json.dumps(events).encode(), status)


def test_a_bus_that_delivers_passes() -> None:
    assert judge(Bus()) == []


@pytest.mark.parametrize(
    "batches",
    [
        [batch("a", 200, 2, 1)],
        [batch("a", 200, 2, 1), batch("b", 500, 3)],
        [batch("a", 200, 1, 3, 2)],
        [batch("a", 200, 1, 2, 3, 4)],
        [batch("a", 500, 1), batch("a", 200, 1, 2, 3)],
    ],
    ids=[
        "an event missing",
        "an event not acknowledged",
        "another order",
        "an event that was not sent",
        "two contents",
    ],
)
def test_a_bus_that_breaks_a_promise_is_found(batches: list[Batch]) -> None:
    story = Bus()
    story.bus.batches["one"] = batches
    assert rules(story) == {("the bus delivers", "")}


# -- Jobs of the queues ------------------------------------------------------------------------------------------------


def jobs() -> QueueEvidence:
    """Job 1 was done, 2 was done at its second delivery, 3 is a dead letter, and 4 is left. An ack of 4 had no answer."""
    queue = QueueEvidence(counts={"ready": 0, "in_flight": 1, "dead_lettered": 1})
    queue.sent |= {"a", "b", "c", "d", "e"}
    queue.appended |= {"a", "b", "c", "d"}  # nobody knows whether "e" was
    deliveries = [(1, "a", 1), (2, "b", 1), (2, "b", 2), *((3, "c", n) for n in (1, 2, 3)), (4, "d", 1)]
    queue.claimed += [claimed(at, *each) for at, each in enumerate(deliveries, 10)]
    queue.asked += [acked(1, 20), acked(2, 21), acked(4, None)]
    queue.dead.append(Letter(3, "c", 3))
    queue.left[4] = "d"
    return queue


def claimed(at: float, seq: int, data: str, deliveries: int) -> Claimed:
    return Claimed(at, at + 0.1, "worker", seq, data, deliveries)


def acked(seq: int, answered: float | None) -> Asked:
    return Asked(19, answered, "worker", "ack", frozenset((seq,)))


def queue_rules(queue: QueueEvidence) -> set[tuple[str, str]]:
    story = Story()
    story.queues["jobs"] = queue
    return rules(story)


def test_a_queue_that_keeps_its_promises_passes() -> None:
    assert queue_rules(jobs()) == set()
    queue = jobs()
    queue.left.clear()  # the ack without an answer was carried out
    queue.counts["in_flight"] = 0
    assert queue_rules(queue) == set()


@pytest.mark.parametrize(
    "breaks",
    [
        lambda queue: queue.appended.add("e"),
        lambda queue: queue.dead.clear() or queue.counts.update(dead_lettered=0),
        lambda queue: queue.asked.append(acked(1, 22)),
        lambda queue: queue.asked.append(acked(4, 22)),
        lambda queue: queue.asked.append(acked(3, 22)),
        lambda queue: queue.claimed.append(claimed(30, 1, "a", 2)),
        lambda queue: queue.claimed.append(claimed(30, 4, "x", 2)),
        lambda queue: queue.claimed.append(claimed(30, 5, "f", 1)),
        lambda queue: queue.claimed.append(claimed(30, 5, "d", 1)),
        lambda queue: queue.claimed.append(claimed(30, 4, "d", 4)),
        lambda queue: queue.dead.append(Letter(3, "c", 3)) or queue.counts.update(dead_lettered=2),
        lambda queue: queue.dead.__setitem__(0, Letter(3, "c", 2)),
        lambda queue: queue.counts.update(ready=1),
        lambda queue: queue.counts.update(dead_lettered=2),
    ],
    ids=[
        "a job that is nowhere",
        "a dead letter that is gone",
        "two acks of one job",
        "an acked job that is still there",
        "an acked job that is a dead letter",
        "a delivery behind the ack",
        "two contents of a seq",
        "a job that nobody sent",
        "one job at two seqs",
        "a delivery too many",
        "a dead letter twice",
        "a dead letter too early",
        "a wrong count of jobs",
        "a wrong count of dead letters",
    ],
)
def test_a_queue_that_breaks_a_promise_is_found(breaks: Callable[[QueueEvidence], object]) -> None:
    queue = jobs()
    breaks(queue)
    assert queue_rules(queue) == {("queues are exact", "jobs")}


# -- Mirrors -----------------------------------------------------------------------------------------------------------


def sites() -> SiteEvidence:
    """Each site appended two records. The second one of `here` had no answer."""
    logs = {"here": ["here/1", "there/1", "here/2", "there/2"], "there": ["there/1", "there/2", "here/1", "here/2"]}
    return SiteEvidence({"here": ["here/1"], "there": ["there/1", "there/2"]}, logs)


def site_rules(evidence: SiteEvidence) -> set[tuple[str, str]]:
    story = Story()
    story.sites = evidence
    return rules(story)


def test_mirrors_that_keep_their_promises_pass() -> None:
    assert site_rules(sites()) == set()


@pytest.mark.parametrize(
    "there",
    [
        ["there/1", "there/2", "here/1"],
        ["there/1", "there/2", "here/1", "here/1", "here/2"],
        ["there/1", "there/2", "here/1", "here/2", "there/1"],
        ["there/1", "there/2", "here/2", "here/1"],
        ["there/1", "there/2", "here/1", "here/2", "here/3"],
    ],
    ids=["a loss", "twice", "a record that comes home", "another order", "a record that its site does not have"],
)
def test_a_mirror_that_breaks_a_promise_is_found(there: list[str]) -> None:
    evidence = sites()
    evidence.logs["there"] = there
    assert site_rules(evidence) == {("mirrors are exact", "")}


def test_a_lost_ack_of_a_site_is_found() -> None:
    evidence = sites()
    evidence.acked["here"].append("here/0")
    assert site_rules(evidence) == {("mirrors are exact", "")}


# -- Calls of the webhook ----------------------------------------------------------------------------------------------

HOOK_LOG = {seq: f"data-{seq}" for seq in (5, 6, 7, 8)}  # the endpoint fails always at 7


def hook_call(at: float, seq: int, *, is_good: bool = True, tag: str = KEEP) -> HookCall:
    return HookCall(at, seq, f"data-{seq}", tag, is_good)


def hooked() -> HookEvidence:
    """Record 5 came again after a fault, 6 came at the second attempt, and 7 never."""
    calls = [hook_call(1, 5), hook_call(2, 6, is_good=False), hook_call(3, 5), hook_call(4, 6)]
    return HookEvidence([*calls, hook_call(5, 7, is_good=False), hook_call(6, 8)], [7])


def hook_faults(evidence: HookEvidence, faults_at: list[float]) -> list[str]:
    return [what.partition(",")[0] for what in webhook_oracle.faults(evidence, HOOK_LOG, faults_at)]


def test_a_webhook_that_delivers_passes() -> None:
    assert hook_faults(hooked(), [2.0]) == []


def test_a_webhook_that_breaks_a_promise_is_found() -> None:
    assert hook_faults(hooked(), []) == ["seq 5 was delivered 2 times"]
    assert hook_faults(hooked(), [4.0]) == ["seq 5 was delivered 2 times"], "a fault that came later"
    broken = hooked()
    broken.calls = [call for call in broken.calls if call.seq != 8]
    assert hook_faults(broken, [2.0]) == ["1 records were never delivered"]
    broken = hooked()
    broken.dead *= 2
    assert hook_faults(broken, [2.0]) == ["1 records are several dead letters"]
    broken.dead = []
    assert hook_faults(broken, [2.0])[-1] == "1 records were never delivered"
    broken.dead = [7, 8]
    assert hook_faults(broken, [2.0]) == ["1 records are dead letters and should not be"]
    broken = hooked()
    broken.calls[-1] = broken.calls[-1]._replace(data="another")
    assert hook_faults(broken, [2.0])[0].startswith("seq 8 arrived as 'another'")
    broken = hooked()
    broken.calls.insert(0, hook_call(0, 8))
    assert "seq 5 was first delivered after 8" in hook_faults(broken, [2.0])


# -- Work of the routers -----------------------------------------------------------------------------------------------


def without(topic: str, place: int) -> Story:
    story = Story()
    del story.log(topic)[place]
    story.settle(topic)
    return story


@pytest.mark.parametrize("topic", ["once", "kept", "b", "latest", "copy"])
def test_a_copy_that_did_not_come_is_found(topic: str) -> None:
    assert ("dests are exact", topic) in rules(without(topic, -2))


def test_a_copy_that_a_consumer_never_got_is_found() -> None:
    story = Story()
    story.replace("inbox", delivery(3))
    assert ("dests are exact", "inbox") in rules(story)


def test_a_copy_that_came_again_is_found() -> None:
    story = Story()
    story.put("kept", story.log("kept")[-1].data)
    story.settle("kept")
    assert {("dests are exact", "kept"), ("nothing twice", "kept")} <= rules(story)


@pytest.mark.parametrize("topic", ["once", "kept", "copy"])
def test_copies_in_another_order_are_found(topic: str) -> None:
    story = Story()
    entries = story.log(topic)
    entries[2], entries[3] = Entry(3, entries[3].data, entries[3].meta), Entry(4, entries[2].data, entries[2].meta)
    assert ("dests are exact", topic) in rules(story)


def test_what_a_filter_keeps_out_is_found() -> None:
    story = Story()
    story.put("kept", next(entry.data for entry in story.log("disk") if f"/{DROP}/" in entry.data))
    story.settle("kept")
    assert rules(story) == {("dests are exact", "kept")}


def test_a_record_that_comes_home_is_found() -> None:
    story = Story()
    story.put("a", story.log("a")[0].data)
    story.settle("a")
    assert ("nothing twice", "a") in rules(story)


def test_a_record_from_where_no_router_leads_is_found() -> None:
    story = Story()
    story.put("copy", story.log("safe")[0].data)
    story.settle("copy")
    assert rules(story) == {("dests are exact", "copy")}


@pytest.mark.parametrize("meta", [None, {"_topics_router": {"router": "once", "source_seq": 1}}])
def test_a_stamp_that_is_not_there_or_not_true_is_found(meta: Any) -> None:
    story = Story()
    story.log("once")[4] = Entry(5, story.log("once")[4].data, meta)
    assert rules(story) == {("dests are exact", "once")}


# -- Stored records ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counter", ["count", "bytes", "earliest_seq"])
def test_a_counter_that_is_wrong_is_found(counter: str) -> None:
    story = Story()
    setattr(story.logs["disk"], counter, getattr(story.logs["disk"], counter) + 1)
    assert rules(story) == {("counters are exact", "disk")}


def test_a_head_below_a_record_is_found() -> None:
    story = Story()
    story.logs["memory"].head_seq = RECORDS - 1
    assert ("counters are exact", "memory") in rules(story)


def test_a_diff_and_sql_that_differ_are_found() -> None:
    story = Story()
    story.logs["b"].sql_records.pop()
    assert rules(story) == {("counters are exact", "b")}


def test_what_is_stored_and_shown_by_nothing_is_found() -> None:
    story = Story()
    story.leftovers.append("3 records of topic 7 are shown by none")
    assert rules(story) == {("nothing is left over", "")}


def test_what_was_seen_to_be_wrong_when_it_happened_is_a_violation() -> None:
    story = Story()
    story.troubles.append(Trouble(3, "writer", "no answer within 20 s"))
    assert rules(story) == {("trouble", "")}


# -- Emitted records ---------------------------------------------------------------------------------------------------


def emits() -> tuple[list[Transaction], dict[str, list[str]]]:
    """`a` was committed before `b` and `c` were emitted, `d` was rolled back, and the answers to two COMMITs were lost."""
    transactions = [
        transaction("a", at=1, answered=2),
        transaction("bc", at=3, answered=8),
        transaction("d", at=4, outcome=UNDONE),
        transaction("ef", at=5, outcome=UNKNOWN),
        transaction("gh", at=6, outcome=UNKNOWN),
    ]
    return transactions, {"t": ["a", "e", "f", "b", "c"]}


def transaction(
    names: str, at: float, outcome: str = COMMITTED, answered: float | None = None, topic: str = "t"
) -> Transaction:
    found = [Emit(at + place / 10, topic, name) for place, name in enumerate(names)]
    return Transaction("emitter", found, outcome, answered)


def test_emits_that_keep_their_promises_pass() -> None:
    assert list(emit_oracle.faults(*emits())) == []


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("aefb", "is not there"),
        ("aefbcc", "2 times"),
        ("aefbcd", "rolled back"),
        ("aefbcx", "nobody has emitted"),
        ("aebc", "1 of 2 records"),
        ("aefcb", "order of calls"),
        ("efbac", "a is behind b"),
    ],
)
def test_each_broken_promise_of_an_emit_is_found(log: str, told: str) -> None:
    transactions, logs = emits()
    logs["t"][:] = log
    found = [what for _, what in emit_oracle.faults(transactions, logs)]
    assert any(told in what for what in found), found


# -- A captured table --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "rows", "told"),
    [
        ("abc", {1: "c"}, None),
        ("abc", {1: "b"}, "the table has"),
        ("abc", {}, "the table has"),
        ("ab", {1: "b"}, "is not there"),
        ("acb", {1: "b"}, "b is behind c"),
    ],
)
def test_what_a_captured_table_lost_is_found(log: str, rows: dict[int, str], told: str | None) -> None:
    found = lost_changes(log, rows, 0)
    assert bool(found) == (told is not None)
    assert told is None or any(told in text for text in found), found


@pytest.mark.parametrize(("log", "lost", "is_told"), [("ab", 1, True), ("b", 1, False), ("b", 2, True)])
def test_changes_that_a_tombstone_tells_may_be_missing(log: str, lost: int, is_told: bool) -> None:
    assert bool(lost_changes(log, {1: "c"}, lost)) != is_told


def lost_changes(log: str, rows: dict[int, str], lost: int) -> list[str]:
    story = Story()
    changes = [
        transaction(name, at=10 * place, answered=10 * place + 5, topic=captures.TOPIC)
        for place, name in enumerate("abc")
    ]
    story.captured = CaptureEvidence(changes, [(1, name) for name in log], rows, lost)
    return [each.text for each in judge(story) if each.rule == "captures are exact"]
