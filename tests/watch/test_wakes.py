"""A process that serves only streams receives the messages of another process."""

import subprocess
import sys

from tests.instances import ROOT

# Nothing else is imported: neither URLs nor views. No look at the heads comes to help.
FOLLOW = """
import asyncio, django
django.setup()
from django_eventstream import send_event
from watch import hub as module
from topics import wake

class Follower:
    def __init__(self): self.heads = asyncio.Queue()
    def heard(self, head_seq): self.heads.put_nowait(head_seq)

async def main():
    hub, follower = module.hub(), Follower()
    hub.running.cancel()
    hub.follow(4711, follower)
    wake.process.listeners.clear()  # only Redis is left to tell
    for head in range(1, 100):
        for data in ({"id": 1}, "news", "4711 0 7", 17):  # of somebody who calls a channel of his own so
            await asyncio.to_thread(send_event, "topics", "message", data)
        wake.announce(4711, head, routed=False)
        try:
            print(await asyncio.wait_for(follower.heads.get(), 0.3))
            return
        except TimeoutError:
            pass  # published before the listener had subscribed

asyncio.run(main())
"""


def test_moves_are_heard_before_any_other_request_and_among_foreign_messages() -> None:
    found = subprocess.run(
        [sys.executable, "-c", FOLLOW], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert int(found.stdout) > 0, found.stderr
