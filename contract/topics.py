"""The queries of the calls about a topic, at a server or at a gateway in front of Kafka."""

from __future__ import annotations

import msgspec


class PutTopicFields(msgspec.Struct):
    create: bool = True
    """False: if the topic is absent, the server answers 404 `topic_not_found`."""


class GetTopicFields(msgspec.Struct):
    touch: bool = True
    """False: this call does not count as a read."""
