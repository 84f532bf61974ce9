"""The table of errors (docs/wire.md), with one class for each code. The class holds the status, the code and the headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any, ClassVar, Self

HIDDEN = "*"  # placeholder for a name that a client may not see. It is not a valid name.
RENDERED: list[type[TopicsError]] = []  # the errors with a `text`


class TopicsError(Exception):
    """A request was refused. It changed nothing.

    A message has names that the client sent. If it has others, or seqs, `text` renders it from `detail`. A change of a name or of
    a seq for a client renders the message again, so no other name can pass.
    """

    status = 500
    code = "internal"
    reason: ClassVar[str | None] = None  # in `detail`, if several errors have one code
    text: ClassVar[str] = ""
    names: ClassVar[tuple[str, ...]] = ()  # the fields of `text` that have a name, or a list of names
    plain: ClassVar[frozenset[str]] = frozenset()  # its other fields
    retry_after: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def __init_subclass__(cls) -> None:
        if "text" in cls.__dict__:
            fields = {field for _, field, _, _ in Formatter().parse(cls.text) if field}
            cls.plain = frozenset(fields.difference(cls.names))
            RENDERED.append(cls)

    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail

    @classmethod
    def of(cls, **detail: Any) -> Self:
        """Returns an error with this detail, and with the message that `text` makes of it."""
        return cls(cls.rendered(detail), **({"reason": cls.reason} if cls.reason else {}) | detail)

    @classmethod
    def rendered(cls, detail: Mapping[str, Any]) -> str:
        found = {name: detail.get(name, HIDDEN) for name in cls.names}
        lists = {name: " -> ".join(map(str, value)) for name, value in found.items() if isinstance(value, list)}
        return cls.text.format(**{field: detail[field] for field in cls.plain}, **found | lists)

    def told_to(self, shown: Callable[[str], str]) -> TopicsError:
        """Returns this refusal for a client that may not see every name. `shown` returns a name or its placeholder."""
        if not self.names:
            return self
        found = [(name, self.detail[name]) for name in self.names]
        seen = {name: [*map(shown, value)] if isinstance(value, list) else shown(value) for name, value in found}
        told = self.of(**self.detail | seen)
        told.headers = self.headers
        return told

    def body(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.detail:
            error["detail"] = self.detail
        return {"error": error}


class Internal(TopicsError):
    """A fault of the server, which is in its log. Try again with growing pauses."""

    status, code = 500, "internal"

    def __init__(self) -> None:
        super().__init__("the server failed on this request and logged the error")


class InvalidRequest(TopicsError):
    """The message names the fault. `detail` can have `field` with `nearest` or `allowed`, `byte` of malformed JSON, `index` of a
    bad record in `records`, or `reason`: `above_head` with `seq` and `head_seq`. With `TOPICS_STRICT=0`, unknown fields are
    ignored. A body that arrives too slowly, or a host name that is not in `ALLOWED_HOSTS`, has this code, too."""

    status, code = 400, "invalid_request"


class AboveHead(InvalidRequest):
    """The seq is above the topic's head."""

    reason = "above_head"
    text = "seq {seq} is above the head: expected at most {head_seq}"


class BatchTooLarge(TopicsError):
    """Too many records in one append, or seqs in one ack, nack, extend or redrive. Send smaller batches."""

    status, code = 400, "batch_too_large"


class RecordTooLarge(TopicsError):
    """`data` and `meta` of the record at `detail.index` are too large. Store the object elsewhere."""

    status, code = 400, "record_too_large"


class Unauthorized(TopicsError):
    """No key, or the key is unknown, revoked or expired."""

    status, code = 401, "unauthorized"


class Forbidden(TopicsError):
    """The key lacks the scope (`detail.scope`), or a name (`detail.name`) is outside its prefixes."""

    status, code = 403, "forbidden"


class TopicNotFound(TopicsError):
    """The topic does not exist, and the call does not create it. Reads never do."""

    status, code = 404, "topic_not_found"


class RouterNotFound(TopicsError):
    """The router does not exist."""

    status, code = 404, "router_not_found"


class NotFound(TopicsError):
    """No such path (`detail.path`: the probable one), record, cursor, group or watch session. Create another session."""

    status, code = 404, "not_found"


class RecordNotFound(NotFound):
    """The topic has no such record."""

    text, names = "topic {topic!r} has no record {seq}", ("topic",)


class MethodNotAllowed(TopicsError):
    """The path exists, but not with this method."""

    status, code = 405, "method_not_allowed"


class NotAcceptable(TopicsError):
    """The client's `Accept` excludes the endpoint's content type."""

    status, code = 406, "not_acceptable"


class PayloadTooLarge(TopicsError):
    """The body, also unzipped, has more than `detail.max` bytes. Send less at once."""

    status, code = 413, "payload_too_large"


class UnsupportedMediaType(TopicsError):
    """The body is not `application/json`, or its encoding is not gzip. With curl, use `--json`."""

    status, code = 415, "unsupported_media_type"


class UpgradeRequired(TopicsError):
    """This path is a [WebSocket](websocket.md). Connect with a client of WebSockets."""

    status, code = 426, "upgrade_required"
    headers = ((b"upgrade", b"websocket"), (b"connection", b"upgrade"))


class RouterCycle(TopicsError):
    """The router would close the cycle `detail.cycle`. Send `allow_cycle` if you want the cycle."""

    status, code = 409, "router_cycle"
    text, names = "this router would close the cycle {cycle}: send allow_cycle: true if you want the cycle", ("cycle",)


class DeadLetterCycle(TopicsError):
    """Dead letters would come back to the queue by `detail.cycle`. Choose another `dead_letter`."""

    status, code = 409, "dead_letter_cycle"
    text, names = "dead letters would go round in the cycle {cycle}: choose another dead_letter", ("cycle",)


class Incompatible(TopicsError):
    """The object exists, and this field cannot change, or its type or state does not allow the call. `detail.reason` for
    routers: `router_dest_fan_in` (the dest has another source), `router_leads_elsewhere`."""

    status, code = 409, "topic_exists_incompatible"


class DestFanIn(Incompatible):
    """The dest already has another source, and not all of its routers allow several sources."""

    reason, names = "router_dest_fan_in", ("dest", "source", "router")
    text = (
        "{dest!r} already has the source {source!r} (router {router!r}): "
        "to share the dest, send allow_fan_in: true for all its routers"
    )


class LeadsElsewhere(Incompatible):
    """The router exists, with another source or dest."""

    reason, names = "router_leads_elsewhere", ("router", "source", "dest")
    text = "router {router!r} forwards from {source!r} to {dest!r}: to change this, delete the router first"


class RouterOutsidePrefixes(TopicsError):
    """`detail.count` routers of the topic are outside the key's prefixes. Use another key."""

    status, code = 409, "router_outside_prefixes"


class TopicNotEmpty(TopicsError):
    """The topic holds records, and you sent `if_empty`."""

    status, code = 409, "topic_not_empty"


class NotAQueue(TopicsError):
    """The call is for jobs of a [queue](queues.md), and the topic is a log."""

    status, code = 409, "not_a_queue"


class HeadMismatch(TopicsError):
    """The head is `detail.head_seq`, not `expected_head`. Read first, then decide."""

    status, code = 409, "head_mismatch"
    text = "the head is {head_seq}, not {expected_head}: read the topic, then append again"


class TopicSealed(TopicsError):
    """The topic is [sealed](wire.md#sealed-topics). Send again after it is unsealed."""

    status, code = 409, "topic_sealed"


class TopicNotSealed(TopicsError):
    """A [copy](wire.md#copies), a delete with `copy` or a DELETE with `if_sealed` needs a sealed topic."""

    status, code = 409, "topic_not_sealed"


class CursorMoved(TopicsError):
    """The cursor is at `detail.seq`, not at `expected_seq`. Stop: your consumer was replaced. In a
    [mirror](wire.md#mirrors): continue at `detail.seq`."""

    status, code = 409, "cursor_moved"
    text = "the cursor is at {seq}, not at {expected_seq}: another reader moved it"


class SiteMoved(CursorMoved):
    """Another mirror has read the site."""

    reason = "mirror"
    text = "the topic has read the site {site!r} up to seq {seq}, not {from_seq}: another mirror runs"


class RouterMoved(CursorMoved):
    """Another operator has moved the router's cursor, or the router has run."""

    reason, names = "router", ("router",)
    text = "router {router!r} is at seq {seq}, not at {expected_seq}: look at the router again"


class ShareMoved(TopicsError):
    """`detail.shares` of the [group](groups.md#commit) have another owner or generation. Nothing was committed. Forget
    these shares, commit the others."""

    status, code = 409, "share_moved"


class SessionEnded(TopicsError):
    """The member's session in the [group](groups.md#commit) timed out, was replaced or left. Stop work on its records, join
    again."""

    status, code = 409, "session_ended"


class TopicFull(TopicsError):
    """The topic is full and has `discard: "reject"`. Delete records, raise the cap, or set `discard` to `old`."""

    status, code = 422, "topic_full"


class IdempotencyMismatch(TopicsError):
    """This key has other records, `detail.first_seq` to `detail.last_seq`. `detail.index`: this record of `records` has the
    key. Use another key."""

    status, code = 422, "idempotency_mismatch"
    text = (
        "an append with the idempotency key {key!r} and other records exists, seqs {first_seq} to {last_seq}: "
        "send the same bytes again, or use another key"
    )


class Throttled(TopicsError):
    """The cap `detail.limit` of `detail.max` is reached. Raise the [cap](settings.md#caps), or send again after
    `Retry-After`."""

    status, code, retry_after = 429, "throttled", 1

    def __init__(self, message: str, *, limit: str, max: int, retry_after: int = 1) -> None:
        """`retry_after`: seconds after which a retry may succeed."""
        super().__init__(message, limit=limit, max=max)
        self.retry_after = retry_after


class NotReady(TopicsError):
    """The message says why: PostgreSQL is away, too slow, older than 14 or not migrated, a lock was held for too long (look
    at `pg_stat_activity`), this process has no free file descriptor, or a later version wrote the config of a webhook.
    `Retry-After` is 1 s."""

    status, code, retry_after = 503, "not_ready", 1


class Outdated(NotReady):
    """A topic was reconfigured after its lookup, and the request did nothing. The caller looks the topic up again.

    Clients never see this error.
    """


class StorageFull(TopicsError):
    """The disk is full. Nothing was written. Reads continue. Enlarge the disk, or delete whole topics. Appends work again
    within a minute. `Retry-After` is 5 s."""

    status, code, retry_after = 503, "storage_full", 5


class ShuttingDown(TopicsError):
    """This process stops. `Retry-After` is 1 s."""

    status, code, retry_after = 503, "shutting_down", 1


def rendered(code: str, detail: Mapping[str, Any]) -> str | None:
    """Returns the message of an error with this `detail`, or None if its message has the client's names alone, and no seqs."""
    for each in RENDERED:
        if (each.code, each.reason) == (code, detail.get("reason")) and each.plain <= detail.keys():
            return each.rendered(detail)
    return None
