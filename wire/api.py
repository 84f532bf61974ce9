"""The differences between the APIs on this port: authentication, and the form of a refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from wire.access.keys import OPEN, Key, keyring
from wire.answer import Answer, refusal


class Keys(Protocol):
    """The clients that an API knows, at most a second old (access/entrance.py)."""

    @property
    def stale(self) -> bool: ...

    @property
    def aging(self) -> bool: ...

    def refresh(self) -> None: ...

    def authenticate(self, authorization: str | None) -> Key: ...


class Refusal(Protocol):
    """Returns the answer to a request that raised, with only the names that its key may see."""

    def __call__(self, error: Exception, started: float, key: Key = OPEN) -> Answer: ...


def everybody(target: bytes, headers: dict[bytes, bytes]) -> None:
    """Refuses no request."""


@dataclass(frozen=True, eq=False)
class Api:
    """One API.

    `check` gets the target and the headers, and raises for a request that is refused before its authentication. `revalidate`, if
    there is one, is called for an unknown client with a time (s). Keys from a reading before this time are too old: another
    process may just have made a key. `is_strict`: a call without fields refuses a body or a query.
    """

    keys: Keys
    refusal: Refusal
    check: Callable[[bytes, dict[bytes, bytes]], None] = everybody
    revalidate: Callable[[float], None] | None = None
    is_strict: bool = True


V0 = Api(keyring, refusal)
