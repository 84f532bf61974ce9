"""POSTs a batch to a callback: over TLS, not to denied addresses, without redirects, and reading little of the answer.

A call runs in a thread and holds the thread until the callback answers, or until another thread cuts the call off
(deliveries.py). Only the status acknowledges. A callback that is slow with the status or the body counts as failing, even if
it acknowledges.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
import warnings
from base64 import b64encode
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

import urllib3
from django.conf import settings
from urllib3 import BaseHTTPResponse
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InsecureRequestWarning,
    LocationParseError,
    NewConnectionError,
    ReadTimeoutError,
)
from urllib3.util import Url, parse_url

from push import addresses
from push.addresses import AddressRefused

CONNECT_SECONDS, ANSWER_SECONDS = settings.ROUTEMASTER_CONNECT_TIMEOUT, settings.ROUTEMASTER_TIMEOUT
MOST_SECONDS = CONNECT_SECONDS + ANSWER_SECONDS  # maximum length of a call, whatever the callback does
BODY_SECONDS = 0.25  # from an answer's status to the end of the body. Then the connection is closed
SLOW_SECONDS = settings.PUSH_SLOW_MS / 1000  # a callback counts as failing if a call takes longer
MOST_READ = 64 * 1024  # bytes of an answer's body, read and ignored, so that the connection can be used again
ACKNOWLEDGED = (200, 204)
LATE = f"no answer within {ANSWER_SECONDS} s"
MOST_ERROR = 300  # characters
HOSTS, KEPT = 1_000, 8  # kept connections: number of hosts, and connections per host


class Outcome(NamedTuple):
    """The outcome of a call. If `acknowledged`, `error` says why the callback still counts as failing (None: well)."""

    status: int | None
    error: str | None
    acknowledged: bool = False


class LeaseOver(Exception):
    """Nothing was sent, because another process may have leased the queue by now."""


class Call:
    """One call and its socket. `may_send()` is asked right before each write. `cut_in(seconds)` schedules cut()."""

    def __init__(self, may_send: Callable[[], bool], cut_in: Callable[[float], object]) -> None:
        self.may_send, self.cut_in = may_send, cut_in
        self.began = time.monotonic()
        self.socket: socket.socket | None = None
        self.cut_off = False
        self.reused = False  # whether the connection served a request before

    def cut(self) -> None:
        """Ends the call, from another thread. The thread that reads from or writes to the socket gets an error at once."""
        self.cut_off = True
        if (ours := self.socket) is not None:
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_RDWR)

    def opened(self, opened: socket.socket) -> None:
        self.socket = opened
        if self.cut_off:  # before the socket existed
            self.cut()


_here = threading.local()  # `call`: the call that this thread makes


class Guarded:
    """A connection that checks the address before connecting, and asks `may_send` before sending."""

    loopback_only = False
    used = False  # whether a request was made since the connection was opened

    def _new_conn(self: Any) -> socket.socket:
        call: Call = _here.call
        try:
            options = self.socket_options or []
            opened = addresses.connect(self.host, self.port, self.timeout, options, loopback_only=self.loopback_only)
        except TimeoutError as error:
            raise ConnectTimeoutError(self, f"no connection within {CONNECT_SECONDS} s") from error
        except OSError as error:
            raise NewConnectionError(self, str(error)) from error
        self.used = False
        call.opened(opened)
        return opened

    def send(self: Any, data: Any) -> None:
        call: Call = _here.call
        if self.sock is None:
            self.connect()
        call.socket = self.sock
        if not call.may_send():
            raise LeaseOver
        super().send(data)  # type: ignore[misc]

    def request(self: Any, *arguments: Any, **options: Any) -> None:
        _here.call.reused, self.used = self.used, True
        super().request(*arguments, **options)  # type: ignore[misc]


class GuardedHTTPS(Guarded, HTTPSConnection):
    pass


class GuardedHTTP(Guarded, HTTPConnection):
    """Plain HTTP, only to this machine, and only if PUSH_CALLBACK_LOOPBACK_HTTP is set."""

    loopback_only = True


class HTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = GuardedHTTPS


class HTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = GuardedHTTP


def trusted() -> ssl.SSLContext:
    """Returns a context that trusts the system's authorities and PUSH_CALLBACK_CA.

    If ROUTEMASTER_SSL_VERIFY is off, the context trusts every server.
    """
    context = ssl.create_default_context()
    if settings.PUSH_CALLBACK_CA:
        context.load_verify_locations(settings.PUSH_CALLBACK_CA)
    if not settings.ROUTEMASTER_SSL_VERIFY:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        warnings.simplefilter("ignore", InsecureRequestWarning)
    return context


class Callbacks:
    """The kept connections of one worker process."""

    def __init__(self) -> None:
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS)
        self.pools = urllib3.PoolManager(
            HOSTS, ssl_context=trusted(), maxsize=KEPT, block=False, timeout=timeout, retries=False
        )
        self.pools.pool_classes_by_scheme = {"https": HTTPSPool, "http": HTTPPool}

    def post(self, callback: str, uuid: str | None, body: bytes, headers: dict[str, str], call: Call) -> Outcome:
        """Sends a batch and returns the outcome. Raises LeaseOver if nothing was sent that a callback could take for a batch."""
        try:
            url = parse_url(callback)
        except LocationParseError:  # the error's message repeats the URL, which may contain credentials
            return Outcome(None, "invalid callback: expected a URL")
        if url.scheme != "https" and not settings.PUSH_CALLBACK_LOOPBACK_HTTP:
            return Outcome(None, "invalid callback: expected an https:// URL")
        sent = {"Content-Type": "application/json", "User-Agent": "topics", **headers, **credentials(uuid, url)}
        _here.call = call
        while True:
            try:
                return self.send(url, sent, body, call)
            except AddressRefused as error:
                return Outcome(None, str(error))
            except (HTTPError, OSError, http.client.HTTPException) as error:
                # A callback can close a kept connection just when we take it. The call is repeated, not counted as failed.
                if not (call.reused and gone(error)) or call.cut_off:
                    return Outcome(None, told(error, call))

    def send(self, url: Url, headers: dict[str, str], body: bytes, call: Call) -> Outcome:
        answer = self.pools.urlopen(
            "POST", url._replace(auth=None).url, body=body, headers=headers, redirect=False, preload_content=False
        )
        if call.cut_off:  # the cut looks like the end of the headers
            answer.close()
            return Outcome(None, LATE)
        late = not drained(answer, call)
        if answer.status not in ACKNOWLEDGED:
            return Outcome(answer.status, f"answered {answer.status}")
        took = time.monotonic() - call.began
        error = None
        if late:
            error = f"answered {answer.status}, but no complete body within {BODY_SECONDS} s"
        elif took > SLOW_SECONDS:
            error = f"answered {answer.status} after {took:.1f} s, later than PUSH_SLOW_MS"
        return Outcome(answer.status, error, True)

    def close(self) -> None:
        self.pools.clear()


def drained(answer: BaseHTTPResponse, call: Call) -> bool:
    """Reads the body, so that the connection can be used again. Closes the connection if reading takes too long.

    Returns False if the call was cut off.
    """
    if answer.length_remaining != 0:
        call.cut_in(BODY_SECONDS)
    try:
        rest = answer.read(MOST_READ + 1, decode_content=False)
        if len(rest) > MOST_READ:
            answer.close()
    except (HTTPError, OSError):  # only the status counts, but the connection cannot be used again
        answer.close()
    # From here on the connection may serve another call. A late cut would end the other call, which is then sent again.
    call.socket = None
    if call.cut_off:
        answer.close()
    answer.release_conn()
    return not call.cut_off


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


CLOSED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)


def gone(error: BaseException) -> bool:
    """Returns whether the callback closed the connection before reading anything. urllib3 keeps the cause in `error.args`."""
    return any(isinstance(each, CLOSED) for each in (error, error.__cause__, *error.args))


def told(error: Exception, call: Call) -> str:
    """Describes an error for people, without the callback's address, which they know, and without its secrets."""
    if call.cut_off or isinstance(error, ReadTimeoutError):
        return LATE
    if isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError):
        return f"no connection within {CONNECT_SECONDS} s"
    cause: Any = error
    while getattr(cause, "__cause__", None) is not None:
        cause = cause.__cause__
    return f"{type(cause).__name__}: {cause}"[:MOST_ERROR]
