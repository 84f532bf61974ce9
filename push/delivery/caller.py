"""POSTs in an event loop: over TLS, not to denied addresses, without redirects, and reading little of the answer.

A call ends at its timeouts, however slowly the endpoint accepts, answers or trickles. Only the status decides. The body is read
so that the connection can be used again, and for the log. It is not unpacked.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from django.conf import settings

from http1.client import Answer, Failure, Pool, Waits
from push.delivery import addresses
from push.delivery.addresses import AddressRefused

CONNECT_SECONDS = float(settings.ROUTEMASTER_CONNECT_TIMEOUT)
BODY_SECONDS = 1.0  # from an answer's status to the end of the body. Then the connection is closed
LONG_SECONDS = 86_400.0  # for what post() limits
MOST_READ = 64 * 1024  # bytes of an answer's body
MOST_KEPT = 2_048  # bytes of an answer that the log shows
MOST_ERROR = 300  # characters
MOST_POOLS = 2_000  # hosts with kept connections
# Connections to a host. A webhook limits its own calls, so endpoints of one host that hang leave connections to the others.
MOST_CONNECTIONS = 1_000_000


class LeaseOver(Exception):
    """Nothing was sent, because another process may have leased the records by now."""


class CallTarget(NamedTuple):
    """A URL, parsed once."""

    scheme: str
    host: str
    port: int
    path: bytes

    @classmethod
    def of(cls, url: str) -> CallTarget:
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.scheme, parts.hostname or "", port, path.encode("ascii"))


class Outcome(NamedTuple):
    """The outcome of a call. `status` is None if there was no answer, and `error` is None after a status of 2xx.

    `is_late`: the body was cut off.
    """

    status: int | None
    error: str | None
    ms: float
    answer: str = ""
    retry_after: str | None = None
    is_late: bool = False


def trusted() -> ssl.SSLContext:
    """Returns a context that trusts the system's authorities and PUSH_CALLBACK_CA.

    If ROUTEMASTER_SSL_VERIFY is off, the context trusts every server.
    """
    context = ssl.create_default_context()
    if settings.PUSH_CALLBACK_CA:
        context.load_verify_locations(settings.PUSH_CALLBACK_CA)
    if not settings.ROUTEMASTER_SSL_VERIFY:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Caller:
    """The kept connections of one event loop.

    `answer_seconds`: from the last byte of a call to the head of its answer. `body_seconds`: from there to the end of the body.
    """

    def __init__(self, *, answer_seconds: float = LONG_SECONDS, body_seconds: float = BODY_SECONDS) -> None:
        self.tls = trusted()
        self.waits = Waits(connect=CONNECT_SECONDS, answer=answer_seconds, silence=LONG_SECONDS)
        self.body_seconds = body_seconds
        self.pools: dict[tuple[str, str, int], Pool] = {}

    async def post(
        self, to: CallTarget, headers: list[tuple[bytes, bytes]], body: bytes, seconds: float, check: Callable[[], None]
    ) -> Outcome:
        """Sends a body and returns the outcome.

        `seconds`: until the head of the answer. `check` is called right before the first byte, and can raise LeaseOver.
        """
        began = time.perf_counter()

        def failed(error: str) -> Outcome:
            return Outcome(None, error[:MOST_ERROR], (time.perf_counter() - began) * 1000)

        try:
            async with asyncio.timeout(seconds):
                answer = await self.ask(to, headers, body, check)
        except AddressRefused as error:
            return failed(str(error))
        except Failure as error:
            return failed(str(error))
        except TimeoutError:
            return failed(f"no answer within {seconds:g} s")
        return await read(answer, began, self.body_seconds)

    async def ask(
        self, to: CallTarget, headers: list[tuple[bytes, bytes]], body: bytes, check: Callable[[], None]
    ) -> Answer:
        pool = self.pool(to)
        while True:
            try:
                return await pool.send(b"POST", to.path, headers, body, check=check)
            except Failure as error:
                # The endpoint can close a kept connection just when we take it. The call is repeated, not counted as failed.
                if not error.stale:
                    raise

    def pool(self, to: CallTarget) -> Pool:
        key = (to.scheme, to.host, to.port)
        pool = self.pools.pop(key, None)
        if pool is None:
            # Plain HTTP only leads to this machine, and only if PUSH_CALLBACK_LOOPBACK_HTTP is set.
            is_plain = to.scheme == "http"
            opener = partial(addresses.open_checked, loopback_only=is_plain)
            tls = None if is_plain else self.tls
            pool = Pool(to.host, to.port, tls=tls, waits=self.waits, most=MOST_CONNECTIONS, opener=opener)
            while len(self.pools) >= MOST_POOLS:
                self.pools.pop(next(iter(self.pools))).retire()
        self.pools[key] = pool  # the last used pool is at the end
        return pool

    def close(self) -> None:
        for pool in self.pools.values():
            pool.close()


async def read(answer: Answer, began: float, seconds: float) -> Outcome:
    """Reads an answer until its end, MOST_READ bytes, or for some seconds."""
    kept, size, is_late = b"", 0, False
    try:
        async with asyncio.timeout(seconds):
            while size <= MOST_READ and (part := await answer.body.next()):
                size += len(part)
                kept = (kept + part)[:MOST_KEPT] if len(kept) < MOST_KEPT else kept
    except TimeoutError:
        is_late = True
    except Failure:  # only the status counts, but the connection cannot be used again
        pass
    finally:
        answer.close()
    error = None if 200 <= answer.status < 300 else f"answered {answer.status}"
    after = next((value.decode("latin-1") for name, value in answer.headers if name == b"retry-after"), None)
    text = kept.decode("utf-8", "replace").replace("\0", "\ufffd")
    return Outcome(answer.status, error, (time.perf_counter() - began) * 1000, text, after, is_late)
