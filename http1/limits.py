"""The limits of a connection, and the refusals of requests beyond them."""

from __future__ import annotations

from dataclasses import dataclass

from http1.errors import Refused, malformed


@dataclass(frozen=True)
class Limits:
    """The limits of one connection. Times are in seconds, sizes in bytes."""

    head_bytes: int = 208 * 1024  # of a head with the longest Last-Event-ID. Above this: 431
    head_fields: int = 100  # above this: 431
    body_bytes: int = 64 * 1024 * 1024  # above this: 413, before the body is read if the head announces its length
    in_flight: int = 16  # requests of one connection that are handled at once. More requests wait, unread.
    head_seconds: float = 10.0  # from a head's first byte to its last byte
    idle_seconds: float = 75.0  # between two requests
    upload_grace_seconds: float = 10.0  # period over which the rate below is averaged
    upload_bytes_a_second: int = 16 * 1024  # least rate of a body
    unsent_bytes: int = 256 * 1024  # unsent bytes for a slow client. Above this, its answers pause.
    write_seconds: float = 30.0  # the server cuts off a client that takes no bytes for this time
    linger_seconds: float = 2.0  # time for a client to read a refusal before the connection ends
    linger_bytes: int = 1024 * 1024  # bytes that the server reads and discards in that time
    cancels: bool = True  # whether a handler is cancelled when its client disconnects. An iterator of parts always is.


def too_slow(limits: Limits) -> Refused:
    least, grace = limits.upload_bytes_a_second, limits.upload_grace_seconds
    return malformed(f"the body arrived too slowly: expected at least {least} bytes per second over {grace:g} seconds")


def head_too_slow(limits: Limits) -> Refused:
    return malformed(f"the head arrived too slowly: expected the head within {limits.head_seconds:g} seconds")


def head_too_large(limits: Limits) -> Refused:
    return Refused(
        431,
        "invalid_request",
        f"the head is too large: expected at most {limits.head_bytes} bytes and {limits.head_fields} fields",
    )
