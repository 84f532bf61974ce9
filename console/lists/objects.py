"""Types of the lists: the key and the row of an object, and a kind of objects (kinds.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from django.utils.safestring import SafeString

from console.health.signals import StoredSignal


class ObjectKey(NamedTuple):
    """The name of an object, and the topic that it belongs to, if its name is not unique without it."""

    name: str
    topic: str = ""

    @property
    def place(self) -> str:
        """Returns the name by which its list is sorted first."""
        return self.topic or self.name


class ObjectRow(NamedTuple):
    """An object in a list. `sample`: its id in the samples. `facts`: of the columns that only its kind has."""

    key: ObjectKey
    url: str
    state: str
    lag: int | None
    age_ms: int | None
    last_ts: int | None
    facts: Sequence[SafeString | str]
    consumers: int | None = None
    sample: int = 0


class ObjectKind(NamedTuple):
    """A kind of objects. `columns`: the titles of `facts`. `lag`, `last`, `consumers`: the titles of columns that all share.
    `states`: by which its list can be filtered. `sample`: the kind of its samples. `all_of_it`: the page that changes several.

    `following` returns the next keys after a key, whose names are below `upto`, in a state ("": any), at most so many. `troubled`
    returns those in trouble, given the open signals, and may leave out those without the prefix. `folds`: whether its list has
    namespaces, and takes a prefix.
    """

    path: str
    title: str
    permission: str
    object: str
    columns: tuple[str, ...]
    lag: str
    last: str
    following: Callable[[ObjectKey, str, str, int], list[ObjectKey]]
    rows: Callable[[list[ObjectKey], int], list[ObjectRow]]
    troubled: Callable[[Sequence[StoredSignal], str, int], Iterable[ObjectKey]]
    nothing_yet: str  # HTML
    consumers: str = ""
    states: tuple[str, ...] = ()
    sample: str = ""
    rate_words: str = "records a second"
    all_of_it: str = ""
    folds: bool = True

    def object_of(self, key: ObjectKey) -> str:
        """Returns an object as signals name it."""
        return f"{self.object} {key.name}" + (f" of {key.topic}" if key.topic else "")
