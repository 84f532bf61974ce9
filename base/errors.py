"""The table of errors (docs/wire.md), with one class for each code. The class holds the status, the code and the headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class TopicsError(Exception):
    """A request was refused. It changed nothing."""

    status = 500
    code = "internal"
    retry_after: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail

    def told_to(self, shown: Callable[[str], str]) -> TopicsError:
        """Returns this refusal for a client that may not see every name. `shown` returns a name or its placeholder."""
        return self

    def body(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.detail:
            error["detail"] = self.detail
        return {"error": error}


class Internal(TopicsError):
    """The server has a bug. It logged the error."""

    status, code = 500, "internal"

    def __init__(self) -> None:
        super().__init__("the server failed on this request and logged the error")


class InvalidRequest(TopicsError):
    """The JSON is malformed, or a type, name, filter or value is invalid."""

    status, code = 400, "invalid_request"


class BatchTooLarge(TopicsError):
    """The append has more records, or the ack more seqs, than one call can carry."""

    status, code = 400, "batch_too_large"


class RecordTooLarge(TopicsError):
    """The data and meta of a record are larger than the cap."""

    status, code = 400, "record_too_large"


class Unauthorized(TopicsError):
    """The request has no key, or an unknown key."""

    status, code = 401, "unauthorized"


class Forbidden(TopicsError):
    """The key lacks the scope, or a name is outside its prefixes."""

    status, code = 403, "forbidden"


class TopicNotFound(TopicsError):
    """The topic does not exist, and the call does not create it."""

    status, code = 404, "topic_not_found"


class RouterNotFound(TopicsError):
    """The router does not exist."""

    status, code = 404, "router_not_found"


class NotFound(TopicsError):
    """The path, record, cursor, group or watch session does not exist."""

    status, code = 404, "not_found"


class MethodNotAllowed(TopicsError):
    """The path exists, but does not have this method."""

    status, code = 405, "method_not_allowed"


class NotAcceptable(TopicsError):
    """The client accepts no media type of this endpoint."""

    status, code = 406, "not_acceptable"


class PayloadTooLarge(TopicsError):
    """The body is larger than the cap."""

    status, code = 413, "payload_too_large"


class UnsupportedMediaType(TopicsError):
    """The Content-Type of the body is not application/json."""

    status, code = 415, "unsupported_media_type"


class UpgradeRequired(TopicsError):
    """The path is a WebSocket, and the request does not ask for one."""

    status, code = 426, "upgrade_required"
    headers = ((b"upgrade", b"websocket"), (b"connection", b"upgrade"))


class RouterCycle(TopicsError):
    """The router would close a directed cycle. `detail.cycle` is the path."""

    status, code = 409, "router_cycle"

    def __init__(self, cycle: list[str]) -> None:
        way = " -> ".join(cycle)
        super().__init__(
            f"this router would close the cycle {way}: send allow_cycle: true if you want the cycle", cycle=cycle
        )
        self.cycle = cycle

    def told_to(self, shown: Callable[[str], str]) -> TopicsError:
        return RouterCycle([shown(name) for name in self.cycle])


class Incompatible(TopicsError):
    """The existing topic or router of this name conflicts with the request."""

    status, code = 409, "topic_exists_incompatible"


class DestFanIn(Incompatible):
    """The dest already has another source, and not all of its routers allow several sources."""

    def __init__(self, dest: str, source: str, router: str) -> None:
        super().__init__(
            f"{dest!r} already has the source {source!r} (router {router!r}): "
            "to share the dest, send allow_fan_in: true for all its routers",
            reason="router_dest_fan_in",
            router=router,
        )
        self.names = (dest, source, router)

    def told_to(self, shown: Callable[[str], str]) -> TopicsError:
        return DestFanIn(*(shown(name) for name in self.names))


class RouterOutsidePrefixes(TopicsError):
    """The topic is a source or a dest of routers that the key may not delete. `detail.count` is their number."""

    status, code = 409, "router_outside_prefixes"


class TopicNotEmpty(TopicsError):
    """The topic holds records, and the request deletes only an empty topic."""

    status, code = 409, "topic_not_empty"


class NotAQueue(TopicsError):
    """The call is for queues, and the topic is a log."""

    status, code = 409, "not_a_queue"


class HeadMismatch(TopicsError):
    """The topic's head is not the head that the append expected. `detail.head_seq` is the topic's head."""

    status, code = 409, "head_mismatch"


class TopicSealed(TopicsError):
    """The topic is sealed. A sealed topic takes no records and no deletes until somebody unseals it."""

    status, code = 409, "topic_sealed"


class TopicNotSealed(TopicsError):
    """A copy needs a sealed topic, and this one is not sealed."""

    status, code = 409, "topic_not_sealed"


class CursorMoved(TopicsError):
    """The cursor is not at the expected seq. `detail.seq` is its position."""

    status, code = 409, "cursor_moved"


class ShareMoved(TopicsError):
    """A share of the commit belongs to another member or session by now. `detail.shares` has the numbers of these shares."""

    status, code = 409, "share_moved"


class SessionEnded(TopicsError):
    """The member's session has ended: it timed out, another stream took the member's name, or the member left."""

    status, code = 409, "session_ended"


class TopicFull(TopicsError):
    """The topic is full and evicts no records. No record of this write was appended."""

    status, code = 422, "topic_full"


class IdempotencyMismatch(TopicsError):
    """An earlier append used this idempotency key with other records. `detail` has its seqs. This append stored nothing."""

    status, code = 422, "idempotency_mismatch"


class Throttled(TopicsError):
    """A resource cap is reached. `detail.limit` is its name, `detail.max` its value."""

    status, code, retry_after = 429, "throttled", 1

    def __init__(self, message: str, *, limit: str, max: int, retry_after: int = 1) -> None:
        """`retry_after`: seconds after which a retry may succeed."""
        super().__init__(message, limit=limit, max=max)
        self.retry_after = retry_after


class NotReady(TopicsError):
    """PostgreSQL is not available. The request may be sent again."""

    status, code, retry_after = 503, "not_ready", 1


class Outdated(NotReady):
    """A topic was reconfigured after its lookup, and the request did nothing. The caller looks the topic up again.

    Clients never see this error.
    """


class StorageFull(TopicsError):
    """PostgreSQL's disk is full, and nothing was written. Reads still work. Deletes free space after a while."""

    status, code, retry_after = 503, "storage_full", 5


class ShuttingDown(TopicsError):
    """This process is shutting down. Send the request to another process."""

    status, code, retry_after = 503, "shutting_down", 1
