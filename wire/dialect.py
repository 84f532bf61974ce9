"""What sets one API on this port apart from another: who may come in, and how a refusal looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from wire.answer import Answer, refusal
from wire.keys import OPEN, Key, keyring


class Keys(Protocol):
    """Who is known to an API, as of a second ago at the most (entrance.py)."""

    @property
    def stale(self) -> bool: ...

    @property
    def aging(self) -> bool: ...

    def refresh(self) -> None: ...

    def authenticate(self, authorization: str | None) -> Key: ...


class Refusal(Protocol):
    """The answer to a request that raised, with what its key may see."""

    def __call__(self, error: Exception, started: float, key: Key = OPEN) -> Answer: ...


def everybody(scope: dict[str, Any], headers: dict[bytes, bytes]) -> None:
    """Nobody is refused for how the request came."""


@dataclass(frozen=True, eq=False)
class Dialect:
    """One API. `check` raises for a request that is refused before anybody looks who asks. `doubt`, where there is one, is called
    with a time (s) for who is unknown: keys that were read before that are too old, since another process may just have made one.
    `is_strict`: a body or a query is refused where there is nothing that it could say.
    """

    keys: Keys
    refusal: Refusal
    check: Callable[[dict[str, Any], dict[bytes, bytes]], None] = everybody
    doubt: Callable[[float], None] | None = None
    is_strict: bool = True


V0 = Dialect(keyring, refusal)
