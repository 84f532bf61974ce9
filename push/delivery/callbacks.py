"""POSTs a batch to a callback of the bus, by the caller that webhooks use, too (caller.py).

Only the status acknowledges. A callback that is slow with the status or the body counts as failing, even if it acknowledges.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import unquote

from django.conf import settings
from urllib3.exceptions import LocationParseError
from urllib3.util import Url, parse_url

from push.delivery.caller import CONNECT_SECONDS, Caller, CallTarget

ANSWER_SECONDS = settings.ROUTEMASTER_TIMEOUT
MOST_SECONDS = CONNECT_SECONDS + ANSWER_SECONDS  # maximum length of a call until its status, whatever the callback does
BODY_SECONDS = 0.25  # from an answer's status to the end of the body. Then the connection is closed
ACKNOWLEDGED = (200, 204)


class Outcome(NamedTuple):
    """The outcome of a call. If `acknowledged`, `error` says why the callback still counts as failing (None: well)."""

    status: int | None
    error: str | None
    acknowledged: bool = False


class Callbacks:
    """The callbacks of one event loop."""

    def __init__(self) -> None:
        self.caller = Caller(answer_seconds=ANSWER_SECONDS, body_seconds=BODY_SECONDS)

    async def post(
        self, callback: str, uuid: str | None, body: bytes, headers: dict[str, str], check: Callable[[], None]
    ) -> Outcome:
        """Sends a batch and returns the outcome. `check` is called right before the first byte, and can raise LeaseOver."""
        try:
            url = parse_url(callback)
        except LocationParseError:  # the error's message repeats the URL, which may contain credentials
            return Outcome(None, "invalid callback: expected a URL")
        if url.scheme != "https" and not settings.PUSH_CALLBACK_LOOPBACK_HTTP:
            return Outcome(None, "invalid callback: expected an https:// URL")
        sent = {"Content-Type": "application/json", "User-Agent": "topics", **headers, **credentials(uuid, url)}
        pairs = [(name.encode(), value.encode()) for name, value in sent.items()]
        status, error, ms, _, _, is_late = await self.caller.post(target(url), pairs, body, MOST_SECONDS, check)
        if status not in ACKNOWLEDGED:
            return Outcome(status, error or f"answered {status}")
        if is_late:
            return Outcome(status, f"answered {status}, but no complete body within {BODY_SECONDS} s", True)
        is_slow = ms > settings.PUSH_SLOW_MS
        slow = f"answered {status} after {ms / 1000:.1f} s, later than PUSH_SLOW_MS"
        return Outcome(status, slow if is_slow else None, True)

    def close(self) -> None:
        self.caller.close()


def target(url: Url) -> CallTarget:
    port = url.port or (443 if url.scheme == "https" else 80)
    return CallTarget(url.scheme or "", (url.host or "").strip("[]"), port, url.request_uri.encode())


def credentials(uuid: str | None, url: Url) -> dict[str, str]:
    """Returns the Authorization header: the subscription's uuid as username, else the URL's credentials. Empty without either.

    In the URL, a password's @ must be written as %40.
    """
    if uuid is not None:
        said = f"{uuid}:x"
    elif url.auth:
        said = unquote(url.auth if ":" in url.auth else f"{url.auth}:x")
    else:
        return {}
    return {"Authorization": f"Basic {b64encode(said.encode()).decode()}"}
