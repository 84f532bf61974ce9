"""Redrive: dead letters go back to their queues (docs/wire.md)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from base.clock import now_ms
from base.errors import BatchTooLarge, InvalidRequest, TopicNotFound, TopicSealed
from base.labels import check_node
from base.names import check_topic_name
from contract.names import NamedTopic
from contract.operations import Operation
from queues.letters import MOST_LETTERS, Choice
from queues.redrive import Skipped, redrive
from store.script import Script
from topics.api.shapes import TopicName
from topics.sealed import DESCRIBED
from wire.access.keys import Key
from wire.answer import Answer, clamped
from wire.endpoint import Call, Endpoint
from wire.schema import Clamped, Performance


class RedriveRequest(Choice):
    """The body of a redrive: which dead letters move. Without a condition, all do."""

    dry_run: bool = False
    """True: the answer counts the letters that would move, and nothing changes. A full queue can still refuse them later."""

    def check(self, key: Key) -> None:
        """Raises InvalidRequest, Forbidden or BatchTooLarge."""
        if self.queue is not None and self.queue != "*":
            key.check_name(check_topic_name(self.queue.removesuffix("*"), "queue"))
        if self.appended_by is not None:
            check_node(self.appended_by)
        if self.seqs is None:
            return
        if self.match is not None:
            raise InvalidRequest("seqs and match exclude each other: send one", field="seqs")
        if len(self.seqs) > MOST_LETTERS:
            raise BatchTooLarge(f"{len(self.seqs)} seqs in one call: expected at most {MOST_LETTERS}", max=MOST_LETTERS)


class SkippedShown(msgspec.Struct, kw_only=True):
    """Dead letters that stay, and why."""

    queue: NamedTopic | None
    """The queue of the letters. Null: `meta` names no queue, or the record does not exist."""
    code: str
    """The code of the error, as in an answer that refuses a call: `topic_not_found`, `not_a_queue`, `topic_full`."""
    message: str
    """The error in words."""
    seqs: list[int]
    """Their seqs in the dead letter topic."""


class RedriveAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    moved: int
    """Number of moved letters."""
    queues: dict[NamedTopic, int]
    """Number of moved letters by queue."""
    skipped: list[SkippedShown]
    """Letters that stay. A later call with `from_seq` leaves these letters out."""
    next_from_seq: Annotated[int, Meta(description="The last examined seq.")]
    caught_up: Annotated[bool, Meta(description="Whether no further letter can match above `next_from_seq`.")]
    dry_run: bool
    """Whether the call only counted."""
    clamped: Clamped = msgspec.UNSET
    performance: Performance


@Endpoint(
    Operation.REDRIVE,
    scope="write",
    body=RedriveRequest,
    answers={200: RedriveAnswer},
    errors=(TopicNotFound, TopicSealed, BatchTooLarge),
    tells=DESCRIBED,
    example={"queue": "example-mails", "limit": 100},
    names={"topic": "example-jobs"},
    tag="queues",
)
def redrive_letters(call: Call[RedriveRequest, None], topic: str) -> Script[Answer]:
    """Move dead letters of a topic back to the queues that they come from.

    Deliveries start again at 0. Also needs the scopes `read` and `delete`.
    """
    call.key.check("read", "delete")
    wanted = call.body
    wanted.check(call.key)
    done = yield from redrive(topic, wanted, call.key, now_ms(), is_dry=wanted.dry_run)
    answer = RedriveAnswer(
        topic=topic,
        moved=sum(done.moved.values()),
        queues=done.moved,
        skipped=[shown(each, call.key) for each in done.skipped],
        next_from_seq=done.next_from_seq,
        caught_up=done.caught_up,
        dry_run=wanted.dry_run,
        clamped=clamped(limit=(wanted.limit, min(wanted.limit, MOST_LETTERS))),
        performance=call.performance(),
    )
    return call.answer(answer)


def shown(skipped: Skipped, key: Key) -> SkippedShown:
    queue = None if skipped.queue is None else key.shown(skipped.queue)
    return SkippedShown(queue=queue, code=skipped.error.code, message=skipped.error.message, seqs=skipped.seqs)
