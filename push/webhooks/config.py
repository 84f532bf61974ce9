"""The config of a webhook, field by field, and the checks of a PUT (docs/webhooks.md)."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from django.conf import settings
from msgspec import UNSET, Meta, UnsetType

from base.errors import InvalidRequest
from base.names import TOPIC_NAME, check_topic_name, within
from base.patterns import is_pattern, matches
from contract.cursors import Edge
from contract.reading import Match
from push.bus.names import BUS
from push.bus.publish import check_url
from push.bus.subscriptions import is_this_machine
from push.webhooks.retry import Retry
from push.webhooks.signing import key_of
from topics.read.diff import check_match
from wire.access.keys import Key
from wire.request.parse import Request

Format = Annotated[Literal["record", "batch", "cloudevents", "data"], Meta(title="WebhookFormat")]
Order = Annotated[Literal["topic", "tag", "none"], Meta(title="WebhookOrder")]
Exhausted = Annotated[Literal["dead_letter", "pause", "skip"], Meta(title="OnExhausted")]
DEAD = "webhooks.dead."  # the dead letter topic of a webhook, before its name
LEFT_OUT = (DEAD, BUS, "bus.queue:")  # topics that a pattern leaves out, unless it begins with this text
MOST_TOPICS, MOST_HEADERS, MOST_HEADER, MOST_URL = 100, 20, 1_024, 2_048
TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
VISIBLE = re.compile(r"[\t -~]*")
# Headers that the server sends itself, or that say how a message is framed.
OURS = frozenset(
    [
        "host",
        "content-length",
        "content-type",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "accept-encoding",
    ]
)


class Settings(Request):
    """The part of a webhook's config that no statement reads."""

    topics: Annotated[list[str], Meta(min_length=1, max_length=MOST_TOPICS)]
    """1 to 100 names of topics, and prefixes that end in `*`: `["orders", "shop.*"]`. A topic that does not exist yet joins from
    its first record. A prefix leaves out dead letters of webhooks and topics of the push bus, unless it begins with their
    prefix."""
    match: Match | None = None
    """Only records with a matching tag, as in a diff."""
    format: Format = "record"
    """`record`: a call has one record. `batch`: a call has up to `max_batch` records of one topic. `cloudevents`: a call has one
    record, as a structured CloudEvent. `data`: a call has the data of one record, and nothing else of it."""
    max_batch: Annotated[int, Meta(ge=1, le=1_000)] = 100
    """For `batch`: the most records of a call."""
    max_wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 0
    """For `batch`: milliseconds for which a call waits for more records."""
    headers: Annotated[dict[str, str], Meta(max_length=MOST_HEADERS)] = msgspec.field(default_factory=dict)
    """Up to 20 headers of each call, with names and values of up to 1,024 printable characters. Answers show `***` instead of a
    value. In a change with the same `url`, `***` keeps the value."""
    timeout_ms: Annotated[int, Meta(ge=100, le=60_000)] = 15_000
    """Milliseconds until a call without an answer has failed."""
    concurrency: Annotated[int, Meta(ge=1, le=64)] = 8
    """The most calls at once. `order` can allow fewer."""
    order: Order = "tag"
    """`tag`: records of one tag are sent one after another, and records behind a failed one wait. `topic`: all records of a topic
    are. `none`: no record waits for another."""
    retry: Retry = msgspec.field(default_factory=Retry)
    """The attempts of a record."""
    on_exhausted: Exhausted = "dead_letter"
    """After the last attempt. `dead_letter`: the record moves to the topic `webhooks.dead.NAME`. `skip`: the log alone has it.
    `pause`: the webhook is paused, and the record waits."""

    @property
    def batch(self) -> int:
        """The most records of a call."""
        return self.max_batch if self.format == "batch" else 1

    def line(self, tag: str | None) -> str | None:
        """Returns the line of a record, or None. Records of one line wait for each other."""
        return {"topic": "", "tag": tag, "none": None}[self.order]


class PutWebhook(Settings, kw_only=True):
    """The body of a PUT. A field that is left out gets its default, also in a change."""

    url: str
    """The address of the calls: `https://` with a host, in up to 2,048 ASCII characters, without credentials, a fragment or a
    backslash."""
    secret: str | UnsetType = UNSET
    """The secret of the signatures: `whsec_` and 24 to 64 bytes in base64. Without it, a new webhook gets a random secret, and
    a change keeps the secret."""
    start: Edge | Annotated[int, Meta(ge=0, le=2**63 - 1)] = msgspec.field(default="head", name="from")
    """Where topics begin that exist, and that the webhook did not have before: after the head (`"head"`), before the first record
    (`"earliest"`), or after a seq, with one topic in `topics`."""

    def check(self, name: str, key: Key) -> None:
        """Raises InvalidRequest or Forbidden."""
        key.check("read")
        check_topic_name(name, "webhook")
        check_target(self.url)
        check_match(self.match)
        check_headers(self.headers)
        if isinstance(self.secret, str):
            key_of(self.secret)
        for pattern in self.topics:
            if not is_pattern(pattern) or not (pattern == "*" or TOPIC_NAME.fullmatch(pattern.removesuffix("*"))):
                raise InvalidRequest(
                    f"invalid topic {pattern[:80]!r}: expected a name, or a prefix and *", field="topics"
                )
            if not pattern.endswith("*"):
                key.check_name(pattern)
        if any(matches(pattern, DEAD + name) for pattern in self.topics if not left_out(pattern, DEAD + name)):
            raise InvalidRequest("topics contains the webhook's own dead letters: leave them out", field="topics")
        if self.on_exhausted == "dead_letter" and not can_bury(name):
            raise InvalidRequest(
                f"the name leaves no room for the topic {DEAD}NAME: send a shorter name, "
                'or another on_exhausted than "dead_letter"',
                field="on_exhausted",
            )
        if isinstance(self.start, int) and (len(self.topics) > 1 or self.topics[0].endswith("*")):
            raise InvalidRequest("from is a seq, and seqs belong to one topic: send one name in topics", field="from")
        if self.retry.max_attempts is not None and self.retry.max_age_ms is not None:
            raise InvalidRequest("retry: max_attempts and max_age_ms exclude each other: send one", field="retry")
        if self.format != "batch" and (self.max_batch, self.max_wait_ms) != (100, 0):
            raise InvalidRequest('max_batch and max_wait_ms need the format "batch"', field="format")

    def settings(self) -> bytes:
        """Returns the JSON of the Settings alone."""
        return msgspec.json.encode({name: getattr(self, name) for name in Settings.__struct_fields__})


def can_bury(name: str) -> bool:
    """Returns whether the dead letter topic of a webhook with this name can exist: its name is longer."""
    return TOPIC_NAME.fullmatch(DEAD + name) is not None


def left_out(pattern: str, name: str) -> bool:
    """Returns whether a pattern leaves a name out that it matches."""
    return pattern.endswith("*") and any(name.startswith(each) and not pattern.startswith(each) for each in LEFT_OUT)


def wants(topics: list[str], prefixes: tuple[str, ...], name: str) -> bool:
    """Returns whether a webhook with these topics, of a key with these prefixes, gets the records of the topic `name`."""
    return within(name, prefixes) and any(matches(each, name) and not left_out(each, name) for each in topics)


def check_target(url: str) -> None:
    """Raises InvalidRequest for an invalid URL. Each call checks the address that the URL leads to (delivery/addresses.py)."""
    schemes = ("https", "http") if settings.PUSH_CALLBACK_LOOPBACK_HTTP else ("https",)
    if not url.isascii():
        raise InvalidRequest("invalid url: write characters beyond ASCII as %XX, and the host as xn--", field="url")
    check_url(url, "url", MOST_URL, schemes)
    parts = urlsplit(url)
    if "#" in url or "\\" in url or parts.username is not None:
        raise InvalidRequest(
            "invalid url: expected no fragment, no backslash and no credentials. Send headers", field="url"
        )
    if parts.scheme == "http" and not is_this_machine(parts.hostname or ""):
        raise InvalidRequest(
            "invalid url: expected https. http is only for this machine (localhost, 127.0.0.1, [::1])", field="url"
        )


def check_headers(headers: dict[str, str]) -> None:
    for name, value in headers.items():
        if (
            not TOKEN.fullmatch(name)
            or len(name) > MOST_HEADER
            or name.lower() in OURS
            or name.lower().startswith("webhook-")
        ):
            raise InvalidRequest(f"headers: {name[:80]!r} is not a header that you can set", field="headers")
        if not VISIBLE.fullmatch(value) or len(value) > MOST_HEADER or value != value.strip():
            raise InvalidRequest(
                f"headers: invalid value of {name!r}: expected up to {MOST_HEADER} printable characters",
                field="headers",
            )
    if len({name.lower() for name in headers}) < len(headers):
        raise InvalidRequest("headers: a header is given twice: send it once", field="headers")
