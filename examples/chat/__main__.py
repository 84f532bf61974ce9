"""`make chat-demo`: a chat room in a page. The server of the page sends files alone: all messages go through one WebSocket."""

from pathlib import Path

from examples.demo import say
from examples.serving import page, server


def main() -> None:
    with server("chat", 4320) as here, page(here, Path(__file__).parent / "index.html") as address:
        here.topics.topic("chat.room").configure(cap_records=10_000)
        say(f"The room is at {address}: open it in two windows. Ctrl-C ends it.")
        here.stopping.wait()


if __name__ == "__main__":
    main()
