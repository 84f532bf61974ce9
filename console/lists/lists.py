"""One list for each kind of object (kinds.py): objects in trouble first, then all others by name, with namespaces folded.

A page reads the rows that it shows, however many objects there are. A namespace with several objects is one row, which leads to
the list of these objects.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from base.clock import now_ms
from console.graph.namespaces import namespace_of
from console.health.signals import StoredSignal, open_signals
from console.history import charts, series
from console.lists.kinds import KINDS, MOST_TROUBLED
from console.lists.objects import ObjectKey, ObjectKind, ObjectRow
from console.live.live import part
from console.site import Console

MOST_ROWS = 40  # of a page, beside those in trouble
MOST_COUNTED = 100  # objects of a namespace that its row counts
MOST_READ = MOST_COUNTED + 1  # keys of one read
RANGE = "15m"  # of a row's line: each of its minutes can be on another page of the table
END = "\x7f"  # after all names with the same beginning
TROUBLE = "trouble"


class ListPlace(NamedTuple):
    """A part of a list: objects with a prefix, in a state or in trouble, after the last row of the page before."""

    prefix: str = ""
    state: str = ""
    after: str = ""
    topic: str = ""  # of `after`, for what belongs to a topic

    @property
    def key(self) -> ObjectKey:
        """Returns the key after which the part begins."""
        if self.after or not self.prefix:
            return ObjectKey(self.after, self.topic)
        before = before_prefix(self.prefix)  # a name that is the prefix belongs to the part
        return ObjectKey(before, before)


class Folded(NamedTuple):
    """A namespace. `names`: of its objects, up to one more than MOST_COUNTED. `troubled`: of them that are in trouble."""

    prefix: str
    names: int
    troubled: int = 0

    @property
    def words(self) -> str:
        return f"{MOST_COUNTED}+" if self.names > MOST_COUNTED else str(self.names)


class ListedRow(NamedTuple):
    """A row of the list. `signal`: the open problem of the object."""

    row: ObjectRow
    rate: float | None
    spark: SafeString
    signal: StoredSignal | None


def before_prefix(prefix: str) -> str:
    """Returns a text above all names that come before the prefix. Text has neither a NUL nor U+D800 to U+DFFF."""
    code = ord(prefix[-1]) - 1
    return prefix[:-1] + (chr(0xD7FF if code == 0xDFFF else code) + END if code else "")


def asked(query: dict[str, str], kind: ObjectKind) -> ListPlace:
    """Returns the part that an address asks for. A state that the kind does not have counts as none, as does a prefix if the kind
    has no namespaces."""
    place = ListPlace(*(query.get(name, "")[:255] for name in ListPlace._fields))
    place = place if kind.folds else place._replace(prefix="")
    return place if place.state in (TROUBLE, *kind.states) else place._replace(state="")


def part_of(kind: ObjectKind, place: ListPlace, now: int) -> dict[str, Any]:
    """Returns the part of the context that changes while the page is open."""
    signals = open_signals()
    found = dict.fromkeys(kind.troubled(signals, place.prefix, now))
    within = [key for key in found if key.place.startswith(place.prefix)]
    troubled = within[:MOST_TROUBLED]
    first = [] if place.after or place.state not in ("", TROUBLE) else troubled
    rest: list[ObjectKey | Folded] = []
    if place.state != TROUBLE:
        rest = following(kind, place, MOST_ROWS + 1)
    page = rest[:MOST_ROWS]
    known = set() if place.state else set(troubled)
    shown = [*first, *(each for each in page if each not in known)]
    rows = drawn(kind, [each for each in shown if isinstance(each, ObjectKey)], signals, now)
    return {
        "kind": kind,
        "rows": [
            with_trouble(each, troubled) if isinstance(each, Folded) else rows[each]
            for each in shown
            if each in rows or isinstance(each, Folded)
        ],
        "following": next_place(place, page[-1]) if len(rest) > MOST_ROWS else None,
        "more_troubled": place.state == TROUBLE and len(within) > MOST_TROUBLED,
        "place": place,
    }


def with_trouble(folded: Folded, troubled: list[ObjectKey]) -> Folded:
    return folded._replace(troubled=sum(each.place.startswith(folded.prefix) for each in troubled))


def following(kind: ObjectKind, place: ListPlace, most: int) -> list[ObjectKey | Folded]:
    """Returns the next objects, or if the part has more than a page, the next objects and namespaces."""
    upto, after = place.prefix + END, place.key
    keys = kind.following(after, upto, place.state, most)
    if place.state or not kind.folds or (len(keys) < most and not place.after):
        return list(keys)
    found: list[ObjectKey | Folded] = []
    while len(found) < most and (keys := kind.following(after, upto, "", MOST_READ)):
        blocks = [
            (block, list(within)) for block, within in groupby(keys, lambda key: namespace_of(key.place, place.prefix))
        ]
        if len(keys) == MOST_READ and len(blocks) > 1:
            blocks.pop()  # it may be longer than what was read of it
        for block, within in blocks:
            if len(within) > 1 and block != place.prefix:
                found.append(Folded(block, min(len(within), MOST_COUNTED + 1)))
                after = ObjectKey(block + END, block + END)
            else:
                found += within
                after = within[-1]
    return found[:most]


def next_place(place: ListPlace, last: ObjectKey | Folded) -> str:
    """Returns the query of the next page."""
    key = ObjectKey(last.prefix + END, last.prefix + END) if isinstance(last, Folded) else last
    return urlencode(
        {name: value for name, value in place._replace(after=key.name, topic=key.topic)._asdict().items() if value}
    )


def drawn(kind: ObjectKind, keys: list[ObjectKey], signals: list[StoredSignal], now: int) -> dict[ObjectKey, ListedRow]:
    """Returns the rows of these objects that exist, each with its last minutes."""
    rows = kind.rows(keys, now)
    past = series.read(kind.sample, [row.sample for row in rows], series.window(RANGE, now)) if kind.sample else {}
    of = {signal.object: signal for signal in reversed(signals)}
    shown = {}
    for row in rows:
        rates = past[row.sample].rates("head_seq") if kind.sample else []
        spark = charts.sparkline(rates, kind.rate_words)
        shown[row.key] = ListedRow(row, charts.last(rates), spark, of.get(kind.object_of(row.key)))
    return shown


def page_of(kind: ObjectKind) -> Callable[[Console, HttpRequest], HttpResponse]:
    """Returns the view of a kind's list."""

    def page(site: Console, request: HttpRequest) -> HttpResponse:
        place = asked(request.GET.dict(), kind)
        context = part_of(kind, place, now_ms())
        chips = [(each, each or "all", each == place.state) for each in ("", TROUBLE, *kind.states)]
        live = urlencode(place._asdict())
        return site.page(request, "console/list.html", title=kind.title, chips=chips, live=live, **context)

    return page


def live(kind: ObjectKind, subject: str) -> str:
    """Returns the part of the page as HTML."""
    query = {key: values[-1] for key, values in parse_qs(subject).items()}
    return render_to_string("console/list_part.html", part_of(kind, asked(query, kind), now_ms()))


for each in KINDS:
    part(f"list-{each.path}", each.permission)(partial(live, each))
