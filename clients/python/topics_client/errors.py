"""Errors as classes: one for each error code of the server, and three of the client.

TopicsError
├── Unreachable          no answer, or only a part of one
├── InvalidAnswer        an answer of something that is no topics server
├── RecordsLost          records were lost before this reader read them
└── Refused              the server refused the call
    ├── InvalidRequest, BatchTooLarge, …
    └── …                a class for each code, see the end of this file
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

if TYPE_CHECKING:
    from topics_client.records import Tombstone


class TopicsError(Exception):
    """Any error of this package. `retry_after`: the seconds that the server asked to wait, or None. `is_again`: an earlier try
    of the call had no certain end, so the call may have been done."""

    retry_after: float | None = None
    is_again: bool = False

    @property
    def can_pass(self) -> bool:
        """Whether the same call may succeed later, without a change."""
        return False


class Unreachable(TopicsError):
    """The server did not answer, or the connection ended within the answer."""

    @property
    def can_pass(self) -> bool:
        return True


class InvalidAnswer(TopicsError):
    """The answer does not come from a topics server, or its data does not have the type that the caller gave to `of`."""


class RecordsLost(TopicsError):
    """Records were lost before this reader read them. `tombstone` says which, and why."""

    def __init__(self, tombstone: Tombstone) -> None:
        super().__init__(
            f"the records {tombstone.gap_from} to {tombstone.gap_to} are lost ({tombstone.reason}): decide how to react, "
            'then read with on_loss="ignore" or a function'
        )
        self.tombstone = tombstone


class Refused(TopicsError):
    """The server refused the call. `code` is for programs, `detail` has values to the message, `status` is HTTP's."""

    code: str = ""
    by_code: ClassVar[dict[str, type[Refused]]] = {}

    def __init_subclass__(cls) -> None:
        Refused.by_code[cls.code] = cls

    def __init__(
        self, message: str, *, code: str, status: int, detail: dict[str, Any], retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.status, self.detail = message, code, status, detail
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.message} ({self.status} {self.code})"

    @property
    def can_pass(self) -> bool:
        return self.status in RETRIED


TOO_MANY = 429  # certainly not done
RETRIED = (TOO_MANY, 500, 502, 503, 504)


class _Error(msgspec.Struct):
    code: str
    message: str
    detail: dict[str, Any] = {}


class _Body(msgspec.Struct):
    error: _Error


def refusal(status: int, body: bytes, retry_after: float | None) -> Refused | InvalidAnswer:
    """Returns the error of an answer without success."""
    try:
        error = msgspec.json.decode(body, type=_Body).error
    except msgspec.MsgspecError:
        if status in RETRIED:  # of a proxy in between
            message = f"the server answered {status}"
            return Refused(message, code="", status=status, detail={}, retry_after=retry_after)
        return InvalidAnswer(
            f"the server answered {status} without an error code: check that the URL is of a topics server"
        )
    kind = Refused.by_code.get(error.code, Refused)
    return kind(error.message, code=error.code, status=status, detail=error.detail, retry_after=retry_after)


class InvalidRequest(Refused):
    code = "invalid_request"


class BatchTooLarge(Refused):
    code = "batch_too_large"


class RecordTooLarge(Refused):
    code = "record_too_large"


class Unauthorized(Refused):
    code = "unauthorized"


class Forbidden(Refused):
    code = "forbidden"


class TopicNotFound(Refused):
    code = "topic_not_found"


class RouterNotFound(Refused):
    code = "router_not_found"


class NotFound(Refused):
    code = "not_found"


class MethodNotAllowed(Refused):
    code = "method_not_allowed"


class NotAcceptable(Refused):
    code = "not_acceptable"


class TopicExistsIncompatible(Refused):
    code = "topic_exists_incompatible"


class RouterCycle(Refused):
    code = "router_cycle"


class DeadLetterCycle(Refused):
    code = "dead_letter_cycle"


class RouterOutsidePrefixes(Refused):
    code = "router_outside_prefixes"


class TopicNotEmpty(Refused):
    code = "topic_not_empty"


class TopicSealed(Refused):
    code = "topic_sealed"


class TopicNotSealed(Refused):
    code = "topic_not_sealed"


class HeadMismatch(Refused):
    code = "head_mismatch"


class CursorMoved(Refused):
    code = "cursor_moved"


class ShareMoved(Refused):
    code = "share_moved"


class SessionEnded(Refused):
    code = "session_ended"


class NotAQueue(Refused):
    code = "not_a_queue"


class PayloadTooLarge(Refused):
    code = "payload_too_large"


class UnsupportedMediaType(Refused):
    code = "unsupported_media_type"


class TopicFull(Refused):
    code = "topic_full"


class IdempotencyMismatch(Refused):
    code = "idempotency_mismatch"


class UpgradeRequired(Refused):
    code = "upgrade_required"


class Throttled(Refused):
    code = "throttled"


class Internal(Refused):
    code = "internal"


class NotReady(Refused):
    code = "not_ready"


class StorageFull(Refused):
    code = "storage_full"


class ShuttingDown(Refused):
    code = "shutting_down"
