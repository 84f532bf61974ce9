"""Sealed topics: a sealed topic takes no records and no deletes (docs/wire.md, "Sealed topics").

A PUT that seals a topic raises the version of the head, and each write compares the version under the head's lock. So every
acknowledged write is older than the seal, and no write follows the seal.
"""

from __future__ import annotations

from typing import TypeVar

from base.errors import TopicNotSealed, TopicSealed, TopicsError
from store.script import Script, Statement
from topics.cache import CachedTopic

HEADER = "Topics-Sealed"
TOLD = ((HEADER.lower().encode(), b"1"),)
DESCRIBED = {HEADER: "`1` where the topic is sealed. Otherwise the answer lacks this header."}
IS_CURRENT = "SELECT FROM topics_topichead WHERE topic_id = %s AND version = %s"

Error = TypeVar("Error", bound=TopicsError)


def told(is_sealed: bool) -> tuple[tuple[bytes, bytes], ...]:
    """Returns the headers of an answer about a topic: `Topics-Sealed` if the topic is sealed."""
    return TOLD if is_sealed else ()


def marked(error: Error, is_sealed: bool) -> Error:
    """Sets the headers of the error's answer, and returns the error."""
    error.headers = told(is_sealed)
    return error


def refused(name: str) -> TopicSealed:
    """Returns the error of a write to a sealed topic."""
    message = (
        f"topic {name!r} is sealed, and takes no records and no deletes: unseal the topic with a PUT, sealed: false"
    )
    return marked(TopicSealed(message, topic=name), True)


def not_sealed(name: str) -> TopicNotSealed:
    """Returns the error of a copy to a topic that is not sealed."""
    return TopicNotSealed(f"topic {name!r} is not sealed: seal the topic before you copy to it", topic=name)


def check_seal(topic: CachedTopic, is_copy: bool) -> Script[bool]:
    """Returns True if the topic's seal allows the write. Copies need a sealed topic, other writes an unsealed topic.

    Raises TopicSealed or TopicNotSealed. Returns False if the topic's version differs from the cached one.
    """
    if topic.sealed == is_copy:
        return True
    if (yield Statement(IS_CURRENT, (topic.id, topic.version), quick=True)):
        raise not_sealed(topic.name) if is_copy else refused(topic.name)
    return False
