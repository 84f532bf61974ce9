"""The record browser's form, its pages, and readable JSON."""

from __future__ import annotations

import contextlib
import itertools
import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from django import forms

from base.clock import now_ms
from base.errors import InvalidRequest
from base.labels import check_node, check_tag
from console.records import records
from console.records.records import RecordFilter, RecordsPage, pattern_of
from store.script import run
from topics.read.describe import Held
from topics.read.diff import seq_before

LONGEST_SEQ = 2**63 - 2
EPOCH = datetime.fromtimestamp(0, UTC)


class TimeInput(forms.DateTimeInput):
    """An input of a time in UTC. It shows milliseconds only of a time that has some, as browsers do."""

    supports_microseconds = True

    def __init__(self) -> None:
        super().__init__(attrs={"type": "datetime-local", "step": "any"})

    def format_value(self, value: Any) -> Any:
        if not isinstance(value, datetime):
            return super().format_value(value)
        return value.replace(tzinfo=None).isoformat(timespec="milliseconds" if value.microsecond else "seconds")


def time_of(ts: int | None) -> datetime | None:
    """Returns the value that a TimeField shows for a time in ms since the epoch."""
    return None if ts is None else EPOCH + timedelta(milliseconds=ts)


class TimeField(forms.DateTimeField):
    """A time in UTC, or nothing. The value is in ms since the epoch."""

    def __init__(self, **more: Any) -> None:
        super().__init__(required=False, label="Time (UTC)", widget=TimeInput(), **more)

    def to_python(self, value: Any) -> int | None:
        time = super().to_python(value)
        return None if time is None else round(time.replace(tzinfo=UTC).timestamp() * 1000)


class JumpForm(forms.Form):
    """The position to show and the filters. `before` and `after` come from the page's own links."""

    seq = forms.IntegerField(required=False, min_value=0, max_value=LONGEST_SEQ, label="Seq")
    at = TimeField()
    tag = forms.CharField(required=False, strip=False, label="Tag", max_length=300)
    node = forms.CharField(required=False, strip=False, label="Node", max_length=300)
    data = forms.CharField(required=False, strip=False, label="Data", max_length=200)
    before = forms.IntegerField(required=False, max_value=LONGEST_SEQ, widget=forms.HiddenInput)
    after = forms.IntegerField(required=False, min_value=0, max_value=LONGEST_SEQ, widget=forms.HiddenInput)

    def wanted(self) -> RecordFilter:
        """Raises InvalidRequest for a tag or node that no record can have."""
        return filter_of(*map(self.cleaned_data.get, ("tag", "node", "data")))


def filter_of(tag: str | None, node: str | None, data: str | None) -> RecordFilter:
    """Raises InvalidRequest for a tag or node that no record can have."""
    if tag:
        check_tag(tag.removesuffix("*") or tag)
    if node:
        check_node(node)
    return RecordFilter(tag or None, node or None, pattern_of(data) if data else None)


def browse(topic: Held, form: JumpForm) -> dict[str, Any]:
    """Returns the template context of one page. Raises InvalidRequest."""
    if not form.is_valid():
        raise InvalidRequest("the page has invalid filters: correct the marked fields")
    given, head, floor = form.cleaned_data, topic.state.head_seq, topic.state.earliest_seq - 1
    wanted = form.wanted()
    start, up, goal = head, False, None
    if given.get("after") is not None:
        start, up = given["after"] + 1, True
    elif given.get("before") is not None:
        start = given["before"] - 1
    elif given.get("seq") is not None:
        start = goal = given["seq"]
    elif given.get("at") is not None:
        start = goal = run(seq_before(topic.state.name, given["at"], now_ms())) + 1
    page = records.page(topic.state.id, topic.state.name, floor, head, start, up, wanted)
    return {
        "page": page,
        "goal": goal,
        "older": page.lowest if page.lowest > floor + 1 else None,
        "newer": page.highest if page.highest < head else None,
        "slices": records.slices(topic.state.id),
        "filtered": any(wanted),
    }


class NeighbourSeqs(NamedTuple):
    """The seqs of the records before and after a record, or None."""

    before: int | None
    after: int | None


def neighbours(topic: Held, seq: int) -> NeighbourSeqs:
    def next_to(start: int, up: bool) -> int | None:
        floor, head = topic.state.earliest_seq - 1, topic.state.head_seq
        rows = records.page(topic.state.id, topic.state.name, floor, head, start, up, RecordFilter(), 1).rows
        return rows[0].seq if rows else None

    return NeighbourSeqs(next_to(seq - 1, False), next_to(seq + 1, True))


def nothing(topic: Held) -> dict[str, Any]:
    """Returns the template context of an empty page, for a request that is invalid."""
    return {"page": RecordsPage([], 0, 0), "slices": records.slices(topic.state.id), "filtered": True}


class Stamps(msgspec.Struct, rename=lambda name: f"${name}"):
    """The fields of a record beside its data."""

    ts: int
    tag: str | None = None
    node: str | None = None


def stamps(record: str) -> Stamps | None:
    """Returns the stamps of a record in wire form, or None if the record is nested too deep for msgspec."""
    try:
        return msgspec.json.decode(record, type=Stamps)
    except RecursionError:
        return None


TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s"{}\[\],:]+')
STRING = re.compile(r'"(?:[^"\\]|\\.)*"?')
STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
MOST_INDENTED = 200_000  # characters; longer records are not indented
MOST_SHOWN = 300_000  # characters of a text on a page; at most 1.8 MB, if each becomes &quot;
DEEPEST = 32  # deepest level of indentation; deeper levels are indented no further


def indented(text: str, most: int = MOST_SHOWN) -> str:
    """Returns JSON on several lines, for people. No token's text changes. `text` may also be JSON that was cut.

    The result ends with the first token that makes the result longer than `most` characters. excerpt() shows whether the text was
    cut.
    """
    if len(text) > MOST_INDENTED:
        return text
    # Indentation multiplies the size of deep JSON, so the size is estimated first.
    outside = STRING.sub("", text)
    brackets = [STEPS[each] for each in outside if each in STEPS]
    depth = max(itertools.accumulate(brackets), default=0)
    if depth <= DEEPEST and len(text) + (len(brackets) + outside.count(",")) * (2 * depth + 1) <= most:
        with contextlib.suppress(msgspec.DecodeError):  # the JSON was cut
            return msgspec.json.format(text, indent=2)
    return indented_by_tokens(text, most)


def indented_by_tokens(text: str, most: int = MOST_SHOWN) -> str:
    """Indents text that is cut or deep. About fifty times slower than msgspec."""
    lines, depth, before, size = [""], 0, "", 0
    for match in TOKEN.finditer(text):
        token = match[0]
        depth -= token in "}]"
        if (token in "}]" and before not in "{[") or (token not in "}]" and before and before in "{[,"):
            lines.append("  " * min(depth, DEEPEST))
            size += len(lines[-1]) + 1
        lines[-1] += ": " if token == ":" else token
        size += len(token)
        if size > most:
            break
        depth += token in "{["
        before = token
    return "\n".join(lines)


class Excerpt(NamedTuple):
    """The beginning of a text on a page, and whether the rest is missing."""

    text: str
    is_cut: bool


def excerpt(text: str, most: int = MOST_SHOWN) -> Excerpt:
    """Returns at most `most` characters of a text."""
    return Excerpt(text[:most], len(text) > most)
