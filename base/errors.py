"""The table of errors (docs/wire.md): one class a code. What a client sees stands on the class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class TopicsError(Exception):
    """A request that is refused and changed nothing."""

    status = 500
    code = "internal"
    retry_after: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail

    def told_to(self, shown: Callable[[str], str]) -> TopicsError:
        """The same refusal for somebody who may not see every name: `shown` returns a name, or what stands for it."""
        return self

    def body(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.detail:
            error["detail"] = self.detail
        return {"error": error}


class Internal(TopicsError):
    """A fault of ours, which was logged."""

    status, code = 500, "internal"

    def __init__(self) -> None:
        super().__init__("something went wrong here, and was logged")


class InvalidRequest(TopicsError):
    """Malformed JSON, a wrong type, a bad name or filter, a value out of range."""

    status, code = 400, "invalid_request"


class BatchTooLarge(TopicsError):
    """More records than one append may carry."""

    status, code = 400, "batch_too_large"


class RecordTooLarge(TopicsError):
    """A record's data and meta are more than a record may hold."""

    status, code = 400, "record_too_large"


class Unauthorized(TopicsError):
    """No key, or one that nobody knows."""

    status, code = 401, "unauthorized"


class Forbidden(TopicsError):
    """The key lacks the scope, or a name lies outside its prefixes."""

    status, code = 403, "forbidden"


class TopicNotFound(TopicsError):
    """The topic is absent and was not to be created."""

    status, code = 404, "topic_not_found"


class RouterNotFound(TopicsError):
    """The router is absent."""

    status, code = 404, "router_not_found"


class NotFound(TopicsError):
    """Nothing is there: a path, a record, a cursor, a watch session."""

    status, code = 404, "not_found"


class MethodNotAllowed(TopicsError):
    """The path is there, the method is not."""

    status, code = 405, "method_not_allowed"


class NotAcceptable(TopicsError):
    """The client accepts none of what this endpoint sends."""

    status, code = 406, "not_acceptable"


class PayloadTooLarge(TopicsError):
    """The body is larger than a body may be."""

    status, code = 413, "payload_too_large"


class UnsupportedMediaType(TopicsError):
    """A body that does not say application/json."""

    status, code = 415, "unsupported_media_type"


class RouterCycle(TopicsError):
    """The router would close a directed cycle; detail.cycle is the path."""

    status, code = 409, "router_cycle"

    def __init__(self, cycle: list[str]) -> None:
        way = " -> ".join(cycle)
        super().__init__(
            f"this router would close the cycle {way}; say allow_cycle: true if that is meant", cycle=cycle
        )
        self.cycle = cycle

    def told_to(self, shown: Callable[[str], str]) -> TopicsError:
        return RouterCycle([shown(name) for name in self.cycle])


class Incompatible(TopicsError):
    """What exists under this name cannot become what was asked for."""

    status, code = 409, "topic_exists_incompatible"


class DestFanIn(Incompatible):
    """Another source leads into the dest already, and the routers do not all allow that."""

    def __init__(self, dest: str, source: str, router: str) -> None:
        super().__init__(
            f"{dest!r} already gets what {source!r} holds (router {router!r}); "
            "several sources may share a dest when all their routers say allow_fan_in: true",
            reason="router_dest_fan_in",
            router=router,
        )
        self.names = (dest, source, router)

    def told_to(self, shown: Callable[[str], str]) -> TopicsError:
        return DestFanIn(*(shown(name) for name in self.names))


class RouterOutsidePrefixes(TopicsError):
    """Routers that the key may not delete lead from or to the topic; detail.count says how many."""

    status, code = 409, "router_outside_prefixes"


class TopicNotEmpty(TopicsError):
    """The topic holds records, and only an empty one was to be deleted."""

    status, code = 409, "topic_not_empty"


class NotAQueue(TopicsError):
    """A queue's call on a topic that is a log."""

    status, code = 409, "not_a_queue"


class HeadMismatch(TopicsError):
    """The topic's head is not the one the append expected; detail.head_seq is."""

    status, code = 409, "head_mismatch"


class TopicSealed(TopicsError):
    """The topic is sealed: it takes no records and no deletes until somebody unseals it."""

    status, code = 409, "topic_sealed"


class TopicNotSealed(TopicsError):
    """A copy needs a sealed topic, and this one is not sealed."""

    status, code = 409, "topic_not_sealed"


class CursorMoved(TopicsError):
    """The cursor is not where its owner thought; detail.seq is."""

    status, code = 409, "cursor_moved"


class TopicFull(TopicsError):
    """The topic is full and discards nothing: no record of this write was appended."""

    status, code = 422, "topic_full"


class IdempotencyMismatch(TopicsError):
    """The idempotency key is that of an append with other records. Its seqs are in detail; this one was not appended."""

    status, code = 422, "idempotency_mismatch"


class Throttled(TopicsError):
    """A resource cap: detail.limit names it, detail.max is its value."""

    status, code, retry_after = 429, "throttled", 1

    def __init__(self, message: str, *, limit: str, max: int, retry_after: int = 1) -> None:
        """`retry_after`: seconds until there may be room."""
        super().__init__(message, limit=limit, max=max)
        self.retry_after = retry_after


class NotReady(TopicsError):
    """PostgreSQL is away. What was sent may be sent again."""

    status, code, retry_after = 503, "not_ready", 1


class Outdated(NotReady):
    """A topic was configured anew since we looked it up, and nothing was done. Who asked looks again; no client hears of it."""


class StorageFull(TopicsError):
    """PostgreSQL's disk is full: what was sent was not written. Reads go on; deletes make room after a while."""

    status, code, retry_after = 503, "storage_full", 5


class ShuttingDown(TopicsError):
    """This process is about to end: ask another."""

    status, code, retry_after = 503, "shutting_down", 1
