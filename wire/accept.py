"""Chooses the media type of an answer from the Accept header (RFC 9110, 12.5.1)."""

from __future__ import annotations

import re
from functools import lru_cache

from wire.schema import JSON

ANYTHING, HTML = b"*/*", "text/html"
QUALITY = re.compile(r";\s*q=([01](?:\.\d*)?)\s*(?:;|$)", re.IGNORECASE)
LONGEST = 1000  # bytes of a header that are read: no client lists more types, and the results are cached
USUAL = (ANYTHING, JSON.encode())


def choose(accept: bytes, media: tuple[str, ...]) -> str | None:
    """Returns the media type with the highest quality, or None if the client accepts none of them.

    Of equal types, the type that the client names most exactly wins, then the first of `media`.
    """
    if accept in USUAL and media[0] == JSON:
        return JSON
    return chosen(accept[:LONGEST], media)


@lru_cache(500)
def chosen(accept: bytes, media: tuple[str, ...]) -> str | None:
    ranges: dict[str, float] = {}
    for each in (accept.strip() or ANYTHING).decode("latin-1").lower().split(","):
        found = QUALITY.search(each)
        ranges[each.partition(";")[0].strip()] = float(found[1]) if found else 1.0

    def rate(each: str) -> tuple[float, int]:
        """Returns the quality of a type, and how exactly a range names it. The most exact range decides."""
        for exactness, named in ((2, each), (1, f"{each.partition('/')[0]}/*"), (0, "*/*")):
            if named in ranges:
                return ranges[named], exactness
        return 0.0, 0

    best = max(media, key=rate)
    return best if rate(best)[0] else None
