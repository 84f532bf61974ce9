"""Types of the names in requests and answers. They say what a gateway has to rename (tests/gateway/test_renamed_shapes.py)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

OF_TOPIC: dict[str, Any] = {"names": "topic"}  # the `extra` of a type, by which a reader of the shapes knows it
NamedTopic = Annotated[str, Meta(extra=OF_TOPIC)]
NamedRouter = Annotated[str, Meta(extra={"names": "router"})]
NamedQueues = Annotated[str, Meta(extra={"names": "pattern"})]  # a queue, or several by a final `*`
