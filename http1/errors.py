"""Refusals of the HTTP layer: unreadable requests, and requests that are larger or slower than the limits."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """The server refuses a request. The connection ends after the answer, unless the whole request was read."""

    def __init__(self, status: int, code: str, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.detail = status, code, message, detail

    def body(self) -> dict[str, Any]:
        """Returns the error as a JSON object."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.detail:
            error["detail"] = self.detail
        return {"error": error}


class BrokenOff(Exception):
    """The body of an answer ends before its end. The client gets the parts so far, and then sees that its connection is cut."""


def malformed(message: str) -> Refused:
    return Refused(400, "invalid_request", message)


def too_large(most: int) -> Refused:
    return Refused(413, "payload_too_large", f"the body is too large: expected at most {most} bytes", max=most)
