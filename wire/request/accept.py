"""Chooses the media type of an answer from the Accept header (RFC 9110, 12.5.1). A page (text/html) is for browsers only."""

from __future__ import annotations

import re
from functools import lru_cache

from django.conf import settings
from django.http.cookie import parse_cookie

from wire.schema import JSON

ANYTHING, HTML = b"*/*", "text/html"
BASIC = b"basic "
QUALITY = re.compile(r";\s*q=([01](?:\.\d*)?)\s*(?:;|$)", re.IGNORECASE)
LONGEST = 1000  # bytes of a header that are read: no client lists more types, and the results are cached
USUAL = (ANYTHING, JSON.encode())
JAVA = b"text/html, image/gif, image/jpeg"  # the Accept of Java's HttpURLConnection begins with this, and that of no browser


def negotiated(method: str, headers: dict[bytes, bytes], media: tuple[str, ...]) -> str | None:
    """Returns the media type of the answer to a request, or None if the client accepts none. `media`: HTML is the last.

    If a program prefers text/html, it gets another type that it accepts, or else the first of `media`.
    """
    accept = headers.get(b"accept", ANYTHING)
    if accept in USUAL and media[0] == JSON:
        return JSON
    found = choose(accept, media)
    if found != HTML or is_browser(method, headers):
        return found
    return choose(accept, media[:-1]) or media[0]


def is_browser(method: str, headers: dict[bytes, bytes]) -> bool:
    """Returns whether a request that prefers text/html comes from a browser. Some programs prefer text/html, too.

    A browser has a cookie of this server's pages, or says that it opens a page. It says nothing if it is old, if a proxy removed
    the header, or if the server has no TLS. Then a GET counts as a browser's, unless it has a key or Java sent it.
    """
    cookies = parse_cookie(headers.get(b"cookie", b"").decode("latin-1"))
    if settings.SESSION_COOKIE_NAME in cookies or settings.CSRF_COOKIE_NAME in cookies:
        return True
    if b"sec-fetch-mode" in headers:
        return headers[b"sec-fetch-mode"] == b"navigate"
    if method not in ("GET", "HEAD") or headers.get(b"accept", b"").startswith(JAVA):
        return False
    authorization = headers.get(b"authorization", BASIC)  # a browser itself adds only a password of HTTP Basic
    return authorization[: len(BASIC)].lower() == BASIC


def choose(accept: bytes, media: tuple[str, ...]) -> str | None:
    """Returns the media type with the highest quality, or None if the client accepts none of them.

    Of equal types, the type that the client names most exactly wins, then the first of `media`.
    """
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
