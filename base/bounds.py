"""Checks of a record's parts against bounds that the caller gives. They need no settings, so Spark's executors use them, too."""

from __future__ import annotations

import msgspec

from base.depth import MOST_DEPTH, check_depth, too_deep
from base.errors import InvalidRequest

MIRROR_STAMP = "_topics_mirror"  # the key of `meta` that names the origin of a mirrored record (mirrors/stamps.py)
# The keys of `meta` that a job gets when it becomes a dead letter (queues/dead.py).
LETTER_FROM, LETTER_DELIVERIES, LETTER_SEQ, LETTER_ERROR = (
    "$dead_letter_from",
    "$dead_letter_deliveries",
    "$dead_letter_src_seq",
    "$dead_letter_error",
)
LETTER_STAMP = frozenset((LETTER_FROM, LETTER_DELIVERIES, LETTER_SEQ, LETTER_ERROR))
# The server acts on these keys: a mirror leaves records out, and a redrive moves letters to the queue. So no client writes them.
SERVERS_OWN = LETTER_STAMP | {MIRROR_STAMP}
STAMP_BYTES, STAMP_KEYS = 2048, 2  # more than the stamps of an exactly_once router and of a mirror add to `meta`


def check_token(what: str, value: str, most: int) -> None:
    """Raises InvalidRequest if the value is longer than `most` bytes, or holds a NUL, which PostgreSQL's text cannot hold."""
    if len(value) * 4 > most and len(value.encode()) > most:
        raise InvalidRequest(f"{what} has {len(value.encode())} bytes: expected at most {most}")
    if "\0" in value:
        raise InvalidRequest(f"{what} contains a NUL character: remove it")


def check_meta(
    meta: bytes, most_bytes: int, most_keys: int, *, is_copy: bool = False, most_depth: int = MOST_DEPTH
) -> int:
    """Returns the size of a meta object in bytes. Raises InvalidRequest if it is not an object within the bounds.

    `is_copy`: a server or an archive had the record before, so `meta` can have stamps beyond the bounds.
    """
    if is_copy:
        most_bytes, most_keys = most_bytes + STAMP_BYTES, most_keys + STAMP_KEYS
    if len(meta) > most_bytes:
        raise InvalidRequest(f"meta has {len(meta)} bytes: expected at most {most_bytes}")
    try:
        fields = msgspec.json.decode(meta, type=dict[str, msgspec.Raw])  # numbers can be too large for a float
    except msgspec.MsgspecError as error:
        raise InvalidRequest("invalid meta: expected an object") from error
    except RecursionError as error:  # in a process of Spark
        raise too_deep("meta") from error
    if len(fields) > most_keys:
        raise InvalidRequest(f"meta has {len(fields)} keys: expected at most {most_keys}")
    check_depth("meta", meta, most_depth)
    if not is_copy and not SERVERS_OWN.isdisjoint(fields):
        name = next(each for each in fields if each in SERVERS_OWN)
        raise InvalidRequest(f"meta has the key {name}, which only servers write: leave the key out")
    return len(meta)
