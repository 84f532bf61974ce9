"""What a client deletes, at a server or at a gateway in front of Kafka: records of a topic, or a topic."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from contract.reading import Match, Seq

MOST_SEQS = 5_000


class DeleteFields(msgspec.Struct):
    """The body of a record delete."""

    before_seq: Seq | None = None
    """Delete records below this seq."""
    match: Match | None = None
    """Delete records with a matching tag, as in a diff. If `before_seq` is also set, a record must meet both conditions."""
    seqs: Annotated[list[Seq], Meta(max_length=MOST_SEQS)] | None = None
    """In place of `before_seq` and `match`: delete records with these seqs, up to 5000 in any order. The server ignores
    seqs without a live record."""
    copy: bool = False
    """True: the topic must be sealed, and the key needs the scope `admin`, too. False: the topic must not be sealed."""


class DeleteTopicFields(msgspec.Struct):
    """The query of a delete of a topic."""

    if_empty: bool = False
    """True: if the topic holds records, the server answers 409 `topic_not_empty`."""
    if_sealed: bool = False
    """True: if the topic is not sealed, the server answers 409 `topic_not_sealed`."""
    keep_head: bool = True
    """False: the next topic of this name starts at seq 1. For copies, because their seqs are those of another server."""
