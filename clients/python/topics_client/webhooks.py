"""Webhooks: their calls at the server, and what a receiver does with a call: `verified`.

from topics_client.webhooks import verified

record = verified("whsec_…", request.headers, request.body)  # raises InvalidSignature
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import msgspec

from topics_client import objects
from topics_client.calls import address
from topics_client.errors import TopicsError
from topics_client.objects import Object
from topics_client.script import Request, Script, call, drive, run

PREFIX = "whsec_"
MOST_SEQ = 2**63 - 1
MOST_AGE = 300.0  # seconds by which the time of a call may differ from the receiver's clock


class InvalidSignature(TopicsError):
    """A call that the server did not sign with this secret, or that somebody recorded and sent again later. Answer 401."""


def verified(secret: str | Sequence[str], headers: Mapping[str, str], body: bytes, max_age: float = MOST_AGE) -> Any:
    """Returns the JSON of a call: a record, a batch or a CloudEvent, as the webhook's `format` says. Raises InvalidSignature.

    `secret`: the webhook's, or several. `body`: as it came, before anything parses it. `max_age`: the most seconds between the
    time of the call and now. A record can come twice: drop a `webhook-id` that you have seen.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        id, ts, signatures = (given[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
        age = abs(time.time() - int(ts))
    except (KeyError, ValueError):
        raise InvalidSignature(
            "expected the headers webhook-id, webhook-timestamp and webhook-signature, as a server of topics sends them"
        ) from None
    if age > max_age:
        raise InvalidSignature(f"the call was signed at {ts}, over {max_age:.0f} s from now: check the clock")
    secrets = (secret,) if isinstance(secret, str) else secret
    signed = b"%b.%b.%b" % (id.encode(), ts.encode(), body)
    wanted = [base64.b64encode(hmac.digest(key_of(each), signed, hashlib.sha256)).decode() for each in secrets]
    shown = [each.removeprefix("v1,") for each in signatures.split(" ") if each.startswith("v1,")]
    if not any(hmac.compare_digest(one.encode(), other.encode()) for one in wanted for other in shown):
        raise InvalidSignature("no signature fits: check the secret, and give the body as it came")
    return msgspec.json.decode(body)


def key_of(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"invalid secret: expected {PREFIX} and base64") from None


def path(name: str, *parts: str) -> str:
    return address("webhooks", name, *parts)


def post(name: str, what: str, fields: Mapping[str, Any]) -> Script[Object]:
    return objects.shown((yield from call(Request("POST", path(name, what), msgspec.json.encode(fields)))))


def rotate(name: str, secret: str | None) -> Script[str]:
    """Gives the webhook a secret, and returns it.

    It is made here: a call without one whose answer was lost would be sent again, and replace the secret that receivers have.
    """
    if secret is None:
        secret = PREFIX + base64.b64encode(os.urandom(32)).decode()
    return str((yield from post(name, "rotate", {"secret": secret}))["secret"])


def deliveries(name: str, limit: int, fields: Mapping[str, Any]) -> Script[list[Object]]:
    query = {key: str(value) for key, value in {"page_size": limit, **fields}.items()}
    answer = objects.shown((yield from call(Request("GET", path(name, "deliveries"), query=query))))
    found: list[Object] = answer["deliveries"]
    return found


def replay(name: str, fields: Mapping[str, Any]) -> Script[int]:
    """Sends all records that fit again, and returns their number."""
    records, body = 0, dict(fields)
    if body.get("topic") is not None and body.get("to_seq") is None:
        body["to_seq"] = MOST_SEQ  # without it, a replay of those that failed continues in later topics
    while True:
        answer = yield from post(name, "replay", body)
        records += int(answer["records"])
        if answer["next_topic"] is None:
            return records
        body |= {"topic": answer["next_topic"], "from_seq": answer["next_from_seq"]}


class Webhook:
    """A webhook. Topics.webhook makes it. Calls take and return the fields of docs/wire.md."""

    def __init__(self, name: str, http: httpx.Client) -> None:
        self.name, self.http = name, http

    def put(self, url: str, topics: Sequence[str], **fields: Any) -> Object:
        """Creates or changes the webhook. Write `from` as `**{"from": "earliest"}`.

        The answer that creates it has the secret, unless the client had to repeat the call because an answer was lost. Then
        `rotate` gives the webhook one. A `secret` of your own cannot be lost.
        """
        return run(objects.put(path(self.name), {"url": url, "topics": topics, **fields}), self.http)

    def info(self) -> Object:
        """Returns its config and state."""
        return run(objects.get(path(self.name)), self.http)

    def delete(self) -> Object:
        """Deletes it. After this, nothing is sent."""
        return run(objects.delete(path(self.name)), self.http)

    def pause(self) -> Object:
        """Pauses it. After this, nothing is sent, and records wait in their topics."""
        return run(post(self.name, "pause", {}), self.http)

    def resume(self) -> Object:
        return run(post(self.name, "resume", {}), self.http)

    def test(self) -> Object:
        """Sends a test. `deliveries` has its outcome."""
        return run(post(self.name, "test", {}), self.http)

    def rotate(self, secret: str | None = None) -> str:
        """Returns its new secret. For a day, calls have a signature by both."""
        return run(rotate(self.name, secret), self.http)

    def deliveries(self, limit: int = 100, **fields: Any) -> list[Object]:
        """Returns its newest calls. `fields`: `topic`, `seq`, `state`, `from_ts`, `to_ts`."""
        return run(deliveries(self.name, limit, fields), self.http)

    def replay(self, **fields: Any) -> int:
        """Sends records again, and returns their number. `dry_run=True` counts them.

        `failed=True`: those that had no attempt left, of all topics or of `topic`. Else those of `topic`, with seqs or times.
        """
        return run(replay(self.name, fields), self.http)


class AsyncWebhook:
    """A webhook, as Webhook, for `async` code."""

    def __init__(self, name: str, http: httpx.AsyncClient) -> None:
        self.name, self.http = name, http

    async def put(self, url: str, topics: Sequence[str], **fields: Any) -> Object:
        return await drive(objects.put(path(self.name), {"url": url, "topics": topics, **fields}), self.http)

    async def info(self) -> Object:
        return await drive(objects.get(path(self.name)), self.http)

    async def delete(self) -> Object:
        return await drive(objects.delete(path(self.name)), self.http)

    async def pause(self) -> Object:
        return await drive(post(self.name, "pause", {}), self.http)

    async def resume(self) -> Object:
        return await drive(post(self.name, "resume", {}), self.http)

    async def test(self) -> Object:
        return await drive(post(self.name, "test", {}), self.http)

    async def rotate(self, secret: str | None = None) -> str:
        return await drive(rotate(self.name, secret), self.http)

    async def deliveries(self, limit: int = 100, **fields: Any) -> list[Object]:
        return await drive(deliveries(self.name, limit, fields), self.http)

    async def replay(self, **fields: Any) -> int:
        return await drive(replay(self.name, fields), self.http)
