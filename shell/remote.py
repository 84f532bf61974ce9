"""The calls of /v0 over HTTP to a remote server. Uses no database, Redis or setting of this machine."""

from __future__ import annotations

import re
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3

from base.errors import TopicsError
from base.refusal import Refusal
from shell import remote_stream
from shell.follower import Follower
from shell.interrupt import end_at_once, on_ctrl_c
from shell.server import RETRIED, Query, shown

CONNECT_SECONDS, ANSWER_SECONDS = 5, 120
# A server that restarts, is busy or does not answer has about ten seconds to recover, which is enough for a restart.
RETRIES, BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 6, 0.25, 4
SECRET = re.compile(r"[!-~]+")  # characters that a header can carry


class RemoteRefusal(TopicsError):
    """A refusal by the server, with the server's message."""

    def __init__(self, status: int, code: str, message: str, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message, **(detail or {}))
        self.status, self.code = status, code


class Remote:
    """A Server (server.py) over HTTP. Raises Refusal if the URL or the key is invalid."""

    def __init__(self, url: str, key: str | None, seconds: float = ANSWER_SECONDS, retries: int = RETRIES) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise Refusal(f"invalid --url {url}: expected http://host:4000 or https://host")
        if parts.username is not None:
            raise Refusal("--url contains a user name or password: send a key in TOPICS_KEY or --key instead")
        if key is not None and not SECRET.fullmatch(key):
            raise Refusal("invalid --key: it contains a character that no API key contains. Copy the key again")
        self.url = url.rstrip("/")
        self.headers = {"authorization": f"Bearer {key}"} if key else {}
        self.retries = retries
        self.pool = urllib3.PoolManager(timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=seconds))

    def send(
        self, method: str, path: str, query: Query | None = None, body: bytes | None = None, again: bool = False
    ) -> bytes:
        headers = {**self.headers, "accept": "application/json"}
        if body is not None:
            headers["content-type"] = "application/json"
        answer = self.request(method, path, query, body, headers, self.patience(again or method != "POST"))
        if answer.status >= 300:
            raise refused(self.url, answer.status, answer.data)
        return answer.data

    def patience(self, again: bool) -> urllib3.Retry:
        """Returns the retry policy. A call that must not run twice is only repeated if the first request surely did not
        arrive."""
        return urllib3.Retry(
            total=self.retries,
            read=None if again else 0,
            status=None if again else 0,
            other=0,
            redirect=False,
            allowed_methods=None,
            status_forcelist=RETRIED if again else (),
            backoff_factor=BACKOFF_SECONDS,
            backoff_max=LONGEST_BACKOFF_SECONDS,
            raise_on_status=False,
        )

    def request(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        headers: dict[str, str],
        retries: Any,
        **how: Any,
    ) -> urllib3.BaseHTTPResponse:
        """Returns the response. Raises Refused if the server does not answer."""
        url = self.url + path + (f"?{urlencode(shown(query))}" if query else "")
        try:
            return self.pool.request(method, url, body=body, headers=headers, retries=retries, **how)
        except urllib3.exceptions.HTTPError as error:
            raise RemoteRefusal(503, "not_ready", f"{self.url} does not answer: {reason(error)}") from error

    def stream(self, path: str, last_id: str | None, silent_seconds: float) -> urllib3.BaseHTTPResponse:
        """Opens a stream of events. Raises Refused. After `silent_seconds` without a byte, reading the stream raises an error."""
        headers = {**self.headers, "accept": "text/event-stream", **({"last-event-id": last_id} if last_id else {})}
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=silent_seconds)
        answer = self.request("GET", path, None, None, headers, False, preload_content=False, timeout=timeout)
        if answer.status != 200:
            body = b""
            with suppress(urllib3.exceptions.HTTPError):  # the status says it, too
                body = answer.read()
            answer.release_conn()
            raise refused(self.url, answer.status, body)
        return answer

    def follow(self, follower: Follower) -> None:
        with on_ctrl_c(end_at_once):
            remote_stream.follow(self, follower)


def refused(url: str, status: int, body: bytes) -> RemoteRefusal:
    """Returns the error in an answer without success."""
    try:
        error = msgspec.json.decode(body)["error"]
        return RemoteRefusal(status, error["code"], error["message"], error.get("detail"))
    except (msgspec.MsgspecError, TypeError, KeyError, AttributeError):
        phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "(unknown status)"
        return RemoteRefusal(
            status, "internal", f"{url} answered {status} {phrase}: check that --url is the address of a topics server"
        )


def reason(error: BaseException) -> str:
    """Returns the innermost cause, without the objects that urllib3 prints around it."""
    while (inner := getattr(error, "reason", None)) is not None and isinstance(inner, BaseException):
        error = inner
    text = str(error).rpartition(": ")[2]
    return re.sub(r"^\[Errno -?\d+\] ", "", text) or type(error).__name__
