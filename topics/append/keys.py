"""The idempotency keys of an append: one for the append, or one for each record (docs/wire.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from base.errors import InvalidRequest

MOST_CHARACTERS = 256


class Keyed(Protocol):
    """An append with idempotency keys."""

    @property
    def records(self) -> Sequence[object]: ...

    idempotency_key: str | None
    idempotency_keys: list[str | None] | None


def take_header(wanted: Keyed, key: str) -> None:
    """Uses the key of the header for an append without `idempotency_key`.

    The gateway adds such a header. If the gateway gets no answer, it repeats the append. So the header must also name the
    records without a key.
    """
    if wanted.idempotency_keys is not None:
        wanted.idempotency_keys = [
            f"{key}#{place}" if each is None else each for place, each in enumerate(wanted.idempotency_keys)
        ]
    else:
        wanted.idempotency_key = key


def key_records(wanted: Keyed) -> None:
    """Replaces the key of the append by a key for each record, for a topic that can leave out some of the records."""
    if wanted.idempotency_key is not None:
        key, wanted.idempotency_key = wanted.idempotency_key, None
        wanted.idempotency_keys = [None] * len(wanted.records)
        take_header(wanted, key)


def check_keys(wanted: Keyed) -> None:
    """Raises InvalidRequest."""
    if wanted.idempotency_key is not None:
        check_key("idempotency_key", wanted.idempotency_key)
    keys = wanted.idempotency_keys
    if keys is None:
        return
    if wanted.idempotency_key is not None:
        raise InvalidRequest(
            "idempotency_key and idempotency_keys in one append: leave one out", field="idempotency_keys"
        )
    if len(keys) != len(wanted.records):
        raise InvalidRequest(
            f"idempotency_keys has {len(keys)} entries: expected {len(wanted.records)}, one for each of records",
            field="idempotency_keys",
        )
    places: dict[str, int] = {}
    for place, key in enumerate(keys):
        if key is None:
            continue
        check_key(f"idempotency_keys[{place}]", key)
        if (first := places.setdefault(key, place)) != place:
            raise InvalidRequest(
                f"idempotency_keys[{first}] and idempotency_keys[{place}] are both {key!r}: give each record a key of its own",
                field="idempotency_keys",
            )


def check_key(field: str, key: str) -> None:
    if not 0 < len(key) <= MOST_CHARACTERS:
        raise InvalidRequest(f"invalid {field}: expected 1 to {MOST_CHARACTERS} characters")
    if "\0" in key:
        raise InvalidRequest(f"{field} contains a NUL character: remove it")
