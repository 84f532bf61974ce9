"""A stream that ends before it knows where to go on changes nothing of where its client, or the next stream, does."""

import asyncio

import msgspec

from watch.hub import Hub
from watch.sessions import Options, Saved, SavedPosition, Session
from watch.stream import Stream
from wire.access.keys import OPEN

POSITIONS = {"topic": SavedPosition(4711, 10, arrived_seq=5), "gone": SavedPosition(4712, 3, gone=True)}


async def end_before_begin(exact: bool) -> tuple[bytes, Saved]:
    """Returns what such a stream sends, and what is written down of it."""
    sent: list[bytes] = []

    async def send(frame: bytes) -> None:
        sent.append(frame)

    hub = Hub()
    options = Options(limit=256, max_bytes=262_144, heartbeat_ms=60_000)
    stream = Stream(hub, Session("wid", options, POSITIONS, stream=2, exact=exact), OPEN, send)
    stream.end("shutting_down", "connect again")
    await stream.run()
    stream.close()
    await hub.close()
    return b"".join(sent), stream.to_save(open=False)


def test_its_last_frame_leaves_the_client_its_id() -> None:
    sent, _ = asyncio.run(end_before_begin(exact=True))
    assert sent.startswith(b"event: error\n")


def test_the_session_stays_where_it_was() -> None:
    for exact in (True, False):
        _, saved = asyncio.run(end_before_begin(exact))
        assert msgspec.json.decode(saved.spots, type=dict[str, SavedPosition]) == POSITIONS
        assert saved.open is not exact
