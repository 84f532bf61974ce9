"""One direction of a mirror for one topic: reads the topic at the source, and hands the records over to the dest (docs/wire.md,
"Mirrors").

The dest commits the position with the records, so a flow can end at any moment. The named cursor at the source shows the lag, and
decides nothing.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from base.bounds import MIRROR_STAMP
from base.depth import MOST_DEPTH, SHALLOW_BYTES, depth
from base.errors import TopicsError
from base.refusal import Refusal
from shell.printing import say
from shell.remote import Remote
from shell.server import Query, can_pass, path

LIMIT = 1000  # records of one read
WAIT_MS = 20_000  # of a read at the head
MOST_UNTOLD, UNTOLD_SECONDS = 1000, 5.0  # seqs without a new record, and seconds, until the dest gets the position
CURSOR_SECONDS = 1.0  # between two updates of the cursor while records wait
PAUSE_SECONDS, STANDBY_SECONDS = 1.0, 5.0
ONCE_SECONDS = 0.05  # between two reads at the head, while the other direction still runs
ANSWER_SECONDS = 60.0
# Codes of refusals that end by themselves, or by a change of the topic.
TEMPORARY = frozenset(("topic_sealed", "topic_full", "topic_not_found"))


class Address(NamedTuple):
    """A server of a mirror. `site`: its name."""

    site: str
    url: str
    key: str | None

    def connect(self) -> Remote:
        return Remote(self.url, self.key, ANSWER_SECONDS, retries=1)

    def __str__(self) -> str:
        return f"{self.site} ({self.url})"


class FlowOrigin(msgspec.Struct):
    topic: str
    site: str


class Meta(msgspec.Struct):
    origin: FlowOrigin | None = msgspec.field(name=MIRROR_STAMP, default=None)


class FlowRecord(msgspec.Struct):
    meta: Meta | None = None


class Seq(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")


class ReadAnswer(msgspec.Struct):
    """The answer of a read."""

    records: list[msgspec.Raw]
    next_from_seq: int
    head_seq: int
    caught_up: bool
    tombstone: dict[str, Any] | None = None


class Loss(msgspec.Struct):
    lost_seq: int
    told_seq: int


class FlowPosition(msgspec.Struct):
    site: str
    read_seq: int | None
    origin_seq: int
    origin_ts: int | None
    losses: list[Loss]


class Positions(msgspec.Struct):
    """The answer of GET …/mirror."""

    sites: list[FlowPosition]


# msgspec learns the fields of a struct when it makes the first decoder. If two threads do that at once, the process can crash.
# So the decoders are made here, before the flows start.
POSITIONS, WINDOW, RECORD = (
    msgspec.json.Decoder(Positions),
    msgspec.json.Decoder(ReadAnswer),
    msgspec.json.Decoder(FlowRecord),
)
SEQ = msgspec.json.Decoder(Seq)


class Failed(Exception):
    """A call failed at this server."""

    def __init__(self, at: Address, error: TopicsError) -> None:
        super().__init__(f"{at}: {error.message}")
        self.at, self.error = at, error

    @property
    def is_temporary(self) -> bool:
        return can_pass(self.error) or self.error.code in TEMPORARY

    @property
    def moved_to(self) -> int | None:
        """Returns the position of the dest if it is not at the expected seq, or None for another failure."""
        return int(self.error.detail["seq"]) if self.error.code == "cursor_moved" else None


class FlowEnd:
    """A server and the connection to it."""

    def __init__(self, at: Address) -> None:
        self.at, self.server = at, at.connect()

    def topic(self, name: str) -> dict[str, Any]:
        """Returns the figures of a topic. Raises Failed."""
        found: dict[str, Any] = msgspec.json.decode(self.call("GET", "topics", name, query={"touch": False}))
        return found

    def call(self, method: str, *segments: str, body: object = None, query: Query | None = None) -> bytes:
        """Returns the answer. Repeats a call without an answer, because each call of a mirror can be repeated. Raises Failed."""
        sent = None if body is None else msgspec.json.encode(body)
        try:
            return self.server.send(method, path(*segments), query, sent, again=True)
        except TopicsError as error:
            raise Failed(self.at, error) from error


class Flow(threading.Thread):
    """Runs until `stop`, or with `once` until the heads of both sites. `failure`: the reason for which it ended by itself.

    `back`: the flow of the other direction, if there is one. Its appends advance the head of the source. So with `once`, a
    flow reads on until the other flow has been at its head, too.
    """

    def __init__(self, topic: str, source: Address, dest: Address, config: dict[str, Any], *, once: bool) -> None:
        super().__init__(daemon=True)
        self.topic, self.source, self.dest, self.config, self.once = topic, FlowEnd(source), FlowEnd(dest), config, once
        self.label = f"{topic}, {source.site} to {dest.site}"
        self.cursor = f"mirror:{dest.site}"
        self.failure: str | None = None
        self.back: Flow | None = None
        self.was_at_head = False
        self.stopping = threading.Event()
        self.busy = threading.Lock()  # held while a window is handed over
        self.trouble = ""  # the last printed trouble; empty while the flow runs
        self.is_sure = True  # whether the dest is at `told`
        self.stood_by = False
        self.seq = self.told = 0  # the last seq read here, and the last one that the dest knows
        self.told_at = self.cursor_at = 0.0

    def begin(self) -> None:
        """Finds the position, and creates the topic at the dest. Raises Failed, or Refusal if both servers are one."""
        self.seq = self.told = self.position()
        head = self.source.topic(self.topic)["head_seq"]
        if self.seq > head:
            raise Refusal(behind(self.label, self.source.at, head, self.seq))
        self.check_other_server()
        try:
            self.hand_over([], None, self.seq)
        except Failed as failed:
            if failed.moved_to is None:
                raise
            # Another mirror runs, or the last call of a killed mirror has just arrived.
            self.is_sure = False

    def position(self) -> int:
        """Returns how far the dest has read the source. Raises Refusal if the source has another record than the dest got."""
        try:
            sites = self.sites(self.dest)
        except Failed as failed:
            if failed.error.code != "topic_not_found":
                raise
            return 0
        known = next((each for each in sites if each.site == self.source.at.site), None)
        if known is None:
            return 0
        self.check_last_record(known)
        return known.read_seq or 0

    def sites(self, end: FlowEnd) -> list[FlowPosition]:
        return POSITIONS.decode(end.call("GET", "topics", self.topic, "mirror")).sites

    def check_last_record(self, known: FlowPosition) -> None:
        """Raises Refusal if the source has another record at the seq of the last one that the dest got."""
        try:
            found = (
                self.source.call("GET", "topics", self.topic, "records", str(known.origin_seq))
                if known.origin_seq
                else None
            )
        except Failed as failed:
            if failed.error.status != 404:  # the record can be deleted or evicted
                raise
            return
        if found is not None and msgspec.json.decode(found)["$ts"] != known.origin_ts:
            raise Refusal(
                f"{self.label}: record {known.origin_seq} at {self.source.at} is not the record that was mirrored before: the "
                "server has an older copy of its data, and new records. See docs/guides/mirror.md, After a restore"
            )

    def check_other_server(self) -> None:
        """Raises Refusal if the dest has the cursor that was just set at the source."""
        put = msgspec.json.decode(self.put_cursor())
        try:
            found = msgspec.json.decode(self.dest.call("GET", "topics", self.topic, "cursors", self.cursor))
        except Failed as failed:
            if failed.error.status != 404:
                raise
            return
        if (found["seq"], found["updated_ts"]) == (put["seq"], put["updated_ts"]):
            if put["created"]:
                with suppress(Failed):  # the key can lack the scope delete
                    self.source.call("DELETE", "topics", self.topic, "cursors", self.cursor)
            raise Refusal(
                f"{self.source.at.url} and {self.dest.at.url} lead to one server: use the URLs of two servers"
            )

    def run(self) -> None:
        say(f"{self.label}: runs, from seq {self.seq}")
        try:
            while not self.stopping.is_set():
                is_last = self.back is None or self.back.was_at_head
                if not self.turn() or not self.once:
                    continue
                self.was_at_head = True
                if is_last:
                    return
                self.stopping.wait(ONCE_SECONDS)
        except Refusal as refusal:
            self.failure = str(refusal)
        except Failed as failed:
            self.failure = f"topics: {self.label}: {failed}"
        except Exception:
            self.failure = f"topics: {self.label}: an error in the program ended the mirror"
            raise

    def turn(self) -> bool:
        """Mirrors the next records, or waits for a while. Returns True at the head of the source."""
        try:
            if not self.is_sure:
                self.seq = self.told = self.position()
                self.is_sure = True
            window = self.read()
            if window.tombstone is not None and window.next_from_seq == self.seq:
                self.stopping.wait(
                    PAUSE_SECONDS
                )  # a recreated topic without a new record: the read repeats its tombstone
                return window.caught_up
            with self.busy:
                if not self.stopping.is_set():
                    self.take(window)
            if self.trouble:
                self.trouble = ""
                say(f"{self.label}: runs again, at seq {self.seq}")
            return window.caught_up
        except Failed as failed:
            self.is_sure = False
            if failed.moved_to is not None:
                self.step_aside(failed.moved_to)
            elif failed.is_temporary:
                self.wait(str(failed))
            else:
                raise
            return False

    def read(self) -> ReadAnswer:
        wait_ms = 0 if self.once else WAIT_MS if self.seq == self.told else int(UNTOLD_SECONDS * 1000)
        body = {"from_seq": self.seq, "limit": LIMIT, "include_tags": True, "wait_ms": wait_ms}
        window = WINDOW.decode(self.source.call("POST", "topics", self.topic, "diff", body=body))
        if self.seq > window.head_seq:
            raise Refusal(behind(self.label, self.source.at, window.head_seq, self.seq))
        return window

    def take(self, window: ReadAnswer) -> None:
        """Hands over the records of the window that are not from the dest, and that the dest takes."""
        records = [each for each in window.records if self.is_new(each) and self.fits(each)]
        if window.tombstone is not None:
            self.tell_loss(window.tombstone)
            if self.seq > self.told:
                self.hand_over([], None, self.seq)  # so that the loss starts behind the seqs that were read
        untold = window.next_from_seq - self.told
        is_due = untold >= MOST_UNTOLD or self.once or time.monotonic() > self.told_at + UNTOLD_SECONDS
        self.seq = window.next_from_seq
        if records or window.tombstone is not None or (untold and is_due):
            self.hand_over(records, window.tombstone, self.seq)
            if window.caught_up or time.monotonic() > self.cursor_at + CURSOR_SECONDS:
                self.put_cursor()

    def is_new(self, record: msgspec.Raw) -> bool:
        try:
            meta = RECORD.decode(record).meta
        except msgspec.ValidationError:
            return True  # the dest decides
        return (
            meta is None
            or meta.origin is None
            or (meta.origin.topic, meta.origin.site) != (self.topic, self.dest.at.site)
        )

    def fits(self, record: msgspec.Raw) -> bool:
        """Returns False for a record from before the bound for the depth. Such a record must not hold up the others."""
        is_deep = len(record) > SHALLOW_BYTES and depth(bytes(record)) > MOST_DEPTH + 1  # the record is a level itself
        if is_deep:
            seq = SEQ.decode(record).seq
            say(f"{self.label}: record {seq} is left out, because it has more than {MOST_DEPTH} levels")
        return not is_deep

    def hand_over(self, records: list[msgspec.Raw], tombstone: dict[str, Any] | None, upto: int) -> None:
        """Raises Failed."""
        losses = [] if tombstone is None else self.losses(tombstone["gap_to"])
        body = {
            "here": self.dest.at.site,
            "source": self.source.at.site,
            "from_seq": self.told,
            "next_from_seq": upto,
            "records": records,
            "tombstone": tombstone,
            "losses": losses,
        }
        try:
            self.send(body)
        except Failed as failed:
            # If the answer to the first call was lost, the second call finds the position that it wants to set.
            if failed.moved_to != upto:
                raise
        self.told, self.told_at = upto, time.monotonic()

    def send(self, body: dict[str, Any]) -> None:
        """Sends a handover. Only the call that creates the topic has a config, because a config needs the scope `admin`."""
        address = ("topics", self.topic, "mirror")
        try:
            self.dest.call("POST", *address, body={**body, "create": False})
        except Failed as failed:
            if failed.error.code != "topic_not_found":
                raise
            self.dest.call("POST", *address, body={**body, "config": self.config})

    def losses(self, gap_to: int) -> list[dict[str, Any]]:
        """Returns the losses of other sites that the source tells in the gap from the position to gap_to."""
        return [
            {"site": each.site, "lost_seq": loss.lost_seq}
            for each in self.sites(self.source)
            for loss in each.losses
            if self.told < loss.told_seq <= gap_to
        ]

    def put_cursor(self) -> bytes:
        """Shows the position at the source."""
        self.cursor_at = time.monotonic()
        return self.source.call("PUT", "topics", self.topic, "cursors", self.cursor, body={"seq": self.told})

    def stop(self) -> None:
        """Stores the position after the window that is being handed over, and ends the flow. Raises Failed."""
        with self.busy:
            if self.stopping.is_set() or not self.is_alive():
                return
            self.stopping.set()
            if self.is_sure:
                if self.seq > self.told:
                    self.hand_over([], None, self.seq)
                self.put_cursor()

    def step_aside(self, seq: int) -> None:
        """Waits for another process of this mirror, which has moved the dest to this seq, or continues at a lower one."""
        if seq < self.told:
            say(
                f"{self.label}: {self.dest.at.site} is back at seq {seq}, after a crash, a restore or a delete. Runs from there"
            )
            return
        if not self.stood_by:
            say(f"{self.label}: stands by, because another process mirrors the topic. Each record arrives once")
        self.stood_by = True
        self.stopping.wait(STANDBY_SECONDS)

    def wait(self, trouble: str) -> None:
        if trouble != self.trouble:
            say(f"{self.label}: waits. {trouble}")
        self.trouble = trouble
        self.stopping.wait(PAUSE_SECONDS)

    def tell_loss(self, tombstone: dict[str, Any]) -> None:
        gap_from, gap_to, reason = tombstone["gap_from"], tombstone["gap_to"], tombstone["reason"]
        if gap_to >= gap_from:
            say(
                f"{self.label}: seqs {gap_from} to {gap_to} were lost at {self.source.at.site} ({reason}) before the mirror"
            )
        if (lost_from := tombstone.get("lost_from", gap_from)) < gap_from:
            say(
                f"{self.label}: a crash took back seqs {lost_from} to {gap_from - 1} at {self.source.at.site}. "
                f"{self.dest.at.site} keeps these records"
            )


def behind(label: str, at: Address, head: int, seq: int) -> str:
    return (
        f"{label}: the head at {at} is {head}, but seq {seq} was mirrored before: the server has an older copy of its data. "
        "Raise the head first. See docs/guides/mirror.md, After a restore"
    )
