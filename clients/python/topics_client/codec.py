"""JSON of records, with the type that the application gave to their data."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import msgspec

from topics_client.errors import InvalidAnswer
from topics_client.records import Job, Streamed, Window

T = TypeVar("T")


class _Claimed(msgspec.Struct, Generic[T]):
    claimed: list[Job[T]]


class Told(msgspec.Struct, Generic[T]):
    """The data of a `record` event. `share` and `generation`: of a group."""

    topic: str
    records: list[Streamed[T]]
    to_seq: int
    share: int = 0
    generation: int = 0


class Codec(Generic[T]):
    """Encodes and decodes data of one type: a Struct of msgspec, a dataclass, a TypedDict, a pydantic model, …"""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self.encode = msgspec.json.Encoder(enc_hook=to_json).encode
        shape = cast(type[Window[T]], Window[kind])  # type: ignore[valid-type]
        self._decoder = msgspec.json.Decoder(shape, dec_hook=from_json)
        told = cast(type[Told[T]], Told[kind])  # type: ignore[valid-type]
        self._told = msgspec.json.Decoder(told, dec_hook=from_json)
        claimed = cast(type[_Claimed[T]], _Claimed[kind])  # type: ignore[valid-type]
        self._claimed = msgspec.json.Decoder(claimed, dec_hook=from_json)

    def window(self, body: bytes) -> Window[T]:
        """Raises InvalidAnswer if data of a record does not have the type."""
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, ValueError) as error:
            raise InvalidAnswer(f"unexpected data: {error}") from error

    def told(self, data: bytes) -> Told[T]:
        """Returns the data of a `record` event. Raises InvalidAnswer if data of a record does not have the type."""
        try:
            return self._told.decode(data)
        except (msgspec.MsgspecError, ValueError) as error:
            raise InvalidAnswer(f"unexpected data: {error}") from error

    def jobs(self, body: bytes) -> tuple[list[Job[T]], list[tuple[Job[Any], InvalidAnswer]]]:
        """Returns the jobs of a claim with data of the type, and all other jobs, each with its error."""
        try:
            return self._claimed.decode(body).claimed, []
        except (msgspec.MsgspecError, ValueError):
            return self._one_by_one(body)

    def _one_by_one(self, body: bytes) -> tuple[list[Job[T]], list[tuple[Job[Any], InvalidAnswer]]]:
        good: list[Job[T]] = []
        bad: list[tuple[Job[Any], InvalidAnswer]] = []
        try:
            claimed = msgspec.json.decode(body, type=_Claimed[Any]).claimed
        except msgspec.MsgspecError as error:
            raise InvalidAnswer(f"unexpected answer: {error}") from error
        for job in claimed:
            try:
                job.data = msgspec.convert(job.data, self.kind, dec_hook=from_json)
            except (msgspec.MsgspecError, ValueError) as error:
                bad.append((job, InvalidAnswer(f"unexpected data: {error}")))
            else:
                good.append(job)
        return good, bad


def to_plain(value: Any) -> Any:
    """Returns data as plain JSON values."""
    return msgspec.to_builtins(value, enc_hook=to_json)


def to_json(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # of pydantic, which this package does not import
        return value.model_dump(mode="json")
    raise NotImplementedError(
        f"{type(value).__name__} has no JSON: expected plain data, a dataclass, a Struct or a pydantic model"
    )


def from_json(kind: type, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind.__name__} is no type of data: expected a dataclass, a Struct or a pydantic model")
