"""Records from before the bound for the depth of JSON (base/depth.py). Releases up to 0.3.0 accepted them."""

from __future__ import annotations

from base.depth import OLD_DEPTH
from tests.instances import Instance

DEEP = b"[" * OLD_DEPTH + b"]" * OLD_DEPTH
DEEP_META = b'{"a":' + DEEP[1:-1] + b"}"


def make_deep(server: Instance, topic: str) -> None:
    """Makes the second record of a topic a record from before the bound."""
    with server.connect() as connection:
        done = connection.execute(
            "UPDATE topics_record r SET data = %s::json, meta = %s::json FROM topics_topic t"
            " WHERE t.id = topic_id AND t.name = %s AND seq = 2",
            (DEEP.decode(), DEEP_META.decode(), topic),
        )
        assert done.rowcount == 1
