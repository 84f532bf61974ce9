"""Dead letters: the choice of those that an operator sends back to their queues, or drops (docs/queues.md)."""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from base.bounds import LETTER_FROM
from base.errors import Outdated
from base.names import TOPIC_NAME
from base.patterns import matches
from contract.names import NamedQueues
from contract.reading import Match, Seq
from store.script import Script, Statement
from topics.append.statements import array
from topics.cache import CachedTopic, as_known
from topics.hooks import hooks
from topics.read.diff import MAX_BYTES, Diff, read_window
from wire.request.parse import Destruction

LETTERS = "SELECT seq, node, tag, meta, data, size FROM queue_letters(%s, %s, %s, %s::bigint[], %s)"
MOST_LETTERS = 1_000  # of one call
NO_META = msgspec.Raw(b"{}")
T = TypeVar("T")


class Letter(msgspec.Struct):
    """A dead letter as a read shows it. Letters that a call names by seq come without a time."""

    seq: int = msgspec.field(name="$seq")
    ts: int | None = msgspec.field(name="$ts", default=None)
    node: str | None = msgspec.field(name="$node", default=None)
    meta: msgspec.Raw = NO_META

    @property
    def queue(self) -> str | None:
        """The queue that the letter comes from, or None if `meta` names none."""
        name = self.field(LETTER_FROM, str)
        return name if name is not None and TOPIC_NAME.fullmatch(name) else None

    def field(self, name: str, type: type[T]) -> T | None:
        """Returns a field of `meta`, or None if it has none of this type.

        The other fields stay text, because JSON has numbers that Python has not, such as 1e400.
        """
        try:
            return msgspec.json.decode(msgspec.json.decode(self.meta, type=dict[str, msgspec.Raw])[name], type=type)
        except (KeyError, msgspec.MsgspecError):
            return None


class Choice(Destruction):
    """A choice of dead letters. A letter must meet all given conditions."""

    from_seq: Seq = 0
    """Choose letters after this seq. Send the `next_from_seq` of the last answer. 0: from the beginning."""
    limit: Annotated[int, Meta(ge=1, le=2**63 - 1)] = MOST_LETTERS
    """Maximum number of examined letters. More than 1000 means 1000. The call also ends after 1 MiB."""
    match: Match | None = None
    """Choose letters with a matching tag, as in a diff."""
    seqs: list[Seq] | None = None
    """Choose letters with these seqs: up to 1000 in any order. Excludes `match`."""
    queue: NamedQueues | None = None
    """Choose letters of this queue, or of all queues whose names begin with the text before a final `*`. Null: of all queues."""
    appended_by: str | None = None
    """Choose letters with this `$node`. Null: with any."""

    def keeps(self, letter: Letter) -> bool:
        """Returns whether the letter meets the conditions that a read does not check."""
        if self.queue is not None and (letter.queue is None or not matches(self.queue, letter.queue)):
            return False
        return self.appended_by in (None, letter.node)


class Letters(NamedTuple):
    """The chosen letters, the last examined seq, whether the call examined all letters up to the head, and absent seqs."""

    letters: list[Letter]
    next_from_seq: int
    caught_up: bool
    absent: list[int]


def choose(name: str, wanted: Choice, now: int) -> Script[Letters]:
    """Returns the next letters of a choice, in order of seq: as many as one call handles.

    The call examines up to `limit` letters with up to 1 MiB, and at least one. Raises TopicNotFound, InvalidRequest or NotReady.
    """
    limit = min(wanted.limit, MOST_LETTERS)
    found = by_window(name, wanted, limit, now) if wanted.seqs is None else by_seq(name, wanted, limit, now)
    window = yield from found
    return window._replace(letters=[each for each in window.letters if wanted.keeps(each)])


def by_window(name: str, wanted: Choice, limit: int, now: int) -> Script[Letters]:
    read = Diff(from_seq=wanted.from_seq, limit=limit, match=wanted.match, window="matches")
    _, window = yield from read_window(name, read, now)
    letters = msgspec.json.decode(f"[{window.records or ''}]", type=list[Letter])
    return Letters(letters, window.next_from_seq, window.caught_up, [])


def by_seq(name: str, wanted: Choice, limit: int, now: int) -> Script[Letters]:
    seqs = sorted(seq for seq in {*(wanted.seqs or ())} if seq > wanted.from_seq)

    def read(topic: CachedTopic) -> Script[Letters | None]:
        if topic.derived:
            yield from hooks.value.before_read(topic, now)
        known = (topic.id, topic.version, topic.expired_ts(now))
        try:
            rows = yield Statement(LETTERS, (*known, array(seqs[:limit]), MAX_BYTES), quick=True)
        except Outdated:
            return None
        letters = [Letter(seq, None, node, msgspec.Raw((meta or "{}").encode())) for seq, node, _, meta, _, _ in rows]
        is_cut = sum(row[5] for row in rows) >= MAX_BYTES
        last = rows[-1][0] if is_cut else max(seqs[:limit], default=wanted.from_seq)
        absent = [seq for seq in seqs[:limit] if seq <= last and seq not in {each.seq for each in letters}]
        return Letters(letters, last, not seqs or last == seqs[-1], absent)

    return as_known(name, read)
