"""The `record` event of a member's stream. The stream's other events come from watch/frames.py."""

from __future__ import annotations

from contract.sse import in_lines


def record(
    topic: str, share: int, generation: int, records: list[bytes], from_seq: int, to_seq: int, head_seq: int
) -> bytes:
    """Returns a `record` event with records of one share."""
    return (
        b'event: record\ndata: {"topic":"%b","share":%d,"generation":%d,"records":[%b],'
        b'"from_seq":%d,"to_seq":%d,"head_seq":%d}\n\n'
    ) % (topic.encode(), share, generation, in_lines(b",".join(records)), from_seq, to_seq, head_seq)
