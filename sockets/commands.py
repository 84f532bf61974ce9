"""The commands of a WebSocket. A command has the fields of its endpoint's body, and `op`, `topic` and `request_id`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from base.bodies import too_large
from base.errors import InvalidRequest
from base.names import check_topic_name
from contract.reading import Match, Seq
from groups import api as groups
from groups.commits import Commit
from groups.joining import JoinOptions
from queues.api import jobs
from queues.api.shapes import AckRequest, ClaimRequest, ExtendRequest, NackRequest
from sockets.frames import RequestId
from topics.api.records import append_records
from topics.append.records import Append
from topics.cache import cached
from watch.sessions import Selection, Start, Watch
from wire.access.keys import Key
from wire.endpoint import Endpoint
from wire.request import upload
from wire.request.parse import Request, parse

LONGEST_ID = 256  # bytes of a request_id


class Envelope(msgspec.Struct):
    """The fields of every command."""

    op: Literal[
        "publish", "subscribe", "unsubscribe", "claim", "ack", "nack", "extend", "join", "commit", "leave", "ping"
    ]
    topic: str | None = None
    group: str | None = None
    request_id: RequestId = UNSET


class Named(msgspec.Struct):
    """The only field that is read from a command that is otherwise invalid."""

    request_id: RequestId = UNSET


class Publish(Append, kw_only=True):
    """Append records. The answer is the frame `ack`."""

    op: str
    topic: str
    request_id: RequestId = UNSET
    return_seqs: bool = False


class Subscribe(Selection, kw_only=True):
    """Follow one topic, or several topics. The fields are those of a watch session."""

    op: str
    request_id: RequestId = UNSET
    topic: str | None = None
    topics: dict[str, Start] | None = None
    from_seq: Seq | None = None
    from_ts: Seq | None = None
    tail: bool = False
    match: Match | None = None

    def watch(self) -> Watch:
        """Returns the watch session with the same fields. Raises InvalidRequest."""
        if (self.topic is None) == (self.topics is None):
            raise InvalidRequest("expected either topic or topics", field="topic")
        start = Start(self.from_seq, self.from_ts, self.tail, self.match)
        topics = self.topics
        if topics is None:
            topics = {str(self.topic): start}
        elif start != Start():
            raise InvalidRequest(
                "with topics, each topic has its own start: move from_seq, from_ts, tail and match into topics"
            )
        return Watch(topics=topics, **{name: getattr(self, name) for name in Selection.__struct_fields__})


class Unsubscribe(Request, kw_only=True):
    """Follow a topic no longer."""

    op: str
    topic: str
    request_id: RequestId = UNSET


class Join(JoinOptions, kw_only=True):
    """Join a consumer group, and get the records of your shares."""

    op: str
    topic: str
    group: str
    request_id: RequestId = UNSET


class Ping(Request, kw_only=True):
    """Ask for a `pong`, after the answers that were sent before. With `positions`, the pong has the seqs to resume from."""

    op: str
    request_id: RequestId = UNSET
    positions: bool = False


class Answered(NamedTuple):
    """A command that an endpoint of HTTP answers. `answer`: the `op` of its answer. `path`: the fields that are in the endpoint's
    path."""

    shape: type[Any]
    endpoint: Endpoint
    answer: str
    path: tuple[str, ...] = ("topic",)


def addressed(body: type[Request], *path: str) -> type[Any]:
    """Returns the shape of a command with the fields of this body and of this path."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        *((name, str) for name in ("op", *path)),
        ("request_id", RequestId, UNSET),
    ]
    return msgspec.defstruct(body.__name__, fields, bases=(body,), kw_only=True)


GROUP = ("topic", "group")
CALLS = {
    "publish": Answered(Publish, append_records, "ack"),
    "claim": Answered(addressed(ClaimRequest, "topic"), jobs.claim_jobs, "jobs"),
    "ack": Answered(addressed(AckRequest, "topic"), jobs.ack_jobs, "acked"),
    "nack": Answered(addressed(NackRequest, "topic"), jobs.nack_jobs, "nacked"),
    "extend": Answered(addressed(ExtendRequest, "topic"), jobs.extend_jobs, "extended"),
    "commit": Answered(addressed(Commit, *GROUP), groups.commit_group, "committed", GROUP),
    "leave": Answered(addressed(groups.Leave, *GROUP), groups.leave_group, "left", GROUP),
}
NO_QUERY = {op: each.endpoint.query() for op, each in CALLS.items() if each.endpoint.query is not None}
OTHERS: dict[str, type[Any]] = {"subscribe": Subscribe, "unsubscribe": Unsubscribe, "join": Join, "ping": Ping}
SCOPES = {"subscribe": ("read",), "join": ("read", "write")}  # that a key needs for the other commands
SUBSCRIPTIONS = ""  # the line of `subscribe`, `unsubscribe` and `join`. No topic has this name.


class Command(NamedTuple):
    """A command that was read. `path`: the values in the path of its endpoint. `line` and `kind`: its order (lines.py)."""

    op: str
    path: tuple[str, ...]
    request_id: RequestId
    body: Any
    line: str | None
    kind: Hashable


def read(message: bytes, key: Key) -> Command:
    """Returns a command. Raises TopicsError with the reason for which the command's endpoint would refuse the same body.

    The first look at a message makes no objects of it. Size and scope are checked before the second one, which does.
    """
    given = parse(message, Envelope)
    if given.request_id is not UNSET and not is_id(bytes(given.request_id)):
        raise InvalidRequest(
            f"invalid request_id: expected a string or a number of at most {LONGEST_ID} bytes", field="request_id"
        )
    called = CALLS.get(given.op)
    if len(message) > (most := upload.most_bytes(called.endpoint if called is not None else None)):
        raise too_large(most)
    if called is None:
        key.check(*SCOPES.get(given.op, ()))
        body = parse(message, OTHERS[given.op])
        line = None if given.op == "ping" else SUBSCRIPTIONS
        return Command(given.op, (), given.request_id, body, line, None)
    path = tuple(check_topic_name(getattr(given, name) or "", name) for name in called.path)
    called.endpoint.check(key, path)
    body = parse(message, called.shape)
    if not isinstance(body, Publish):
        return Command(given.op, path, given.request_id, body, None, None)
    if body.copy:
        raise InvalidRequest("a socket takes no copy: send it with POST /v0/topics/:topic", field="copy")
    return Command(given.op, path, given.request_id, body, body.topic, kind_of(body))


def kind_of(wanted: Publish) -> str | None:
    """Returns the kind of an append for its line, or None for an append that needs a wave of its own.

    Such an append expects a head, so the append before has to end first. Or the topic may be absent: then each append may create
    the topic, and the server repeats the other appends in any order.
    """
    if wanted.expected_head is not None or cached(wanted.topic) is None:
        return None
    return "keyed" if wanted.keyed else "plain"


def is_id(json: bytes) -> bool:
    return len(json) <= LONGEST_ID and json[:1] in b'"-0123456789'


def request_id_of(message: bytes) -> RequestId:
    """Returns the id of an invalid command, if the command has one that can be read."""
    try:
        found = msgspec.json.decode(message, type=Named).request_id
    except (msgspec.MsgspecError, RecursionError):
        return UNSET
    return found if found is not UNSET and is_id(bytes(found)) else UNSET
