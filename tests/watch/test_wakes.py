"""A process that serves only streams receives the messages of another process, and skips its own."""

import select
import subprocess
import sys

import redis
from django.conf import settings
from django_eventstream import send_event

from tests.instances import ROOT, until
from tests.threads import no_thread
from topics import wake

TOPIC, LAST, OWN = 4711, 1_000, 1_000_000

# Nothing else is imported: neither URLs nor views. No look at the heads comes to help.
FOLLOW = f"""
import asyncio, django, redis
django.setup()
from django.conf import settings
from topics import wake
from watch import hub as module

class Follower:
    def __init__(self): self.heads = asyncio.Queue()
    def heard(self, head_seq): self.heads.put_nowait(head_seq)

async def main():
    hub, follower = module.hub(), Follower()
    hub.running.cancel()
    hub.follow({TOPIC}, follower)
    print(await follower.heads.get(), flush=True)
    # The hub would ignore all lower heads after this one.
    wake.process.send(redis.Redis.from_url(settings.REDIS_URL), {{{TOPIC}: {OWN}}}, set())
    print("sent", flush=True)
    while (head := await follower.heads.get()) < {LAST}: pass
    print(head, flush=True)

asyncio.run(main())
"""


def test_moves_of_other_processes_are_heard_before_any_other_request_and_among_foreign_messages() -> None:
    with subprocess.Popen([sys.executable, "-c", FOLLOW], cwd=ROOT, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        try:
            for head in range(1, LAST):
                for data in ({"id": 1}, "news", f"{TOPIC} 0 7", 17):  # of somebody who calls a channel of his own so
                    send_event("topics", "message", data)
                wake.announce(TOPIC, head, routed=False)
                if select.select([follower.stdout], [], [], 0.1)[0]:
                    break  # earlier heads were published before the follower had subscribed
            assert 0 < int(follower.stdout.readline()) < LAST
            assert follower.stdout.readline() == "sent\n"
            wake.announce(TOPIC, LAST, routed=False)
            assert int(follower.stdout.readline()) == LAST
        finally:
            follower.kill()


def test_a_wake_up_without_a_free_thread_is_sent_with_the_next_one() -> None:
    """The append has committed, so it must not fail."""
    made = wake.Wake()
    with redis.Redis.from_url(settings.REDIS_URL) as client, client.pubsub() as heard:
        heard.subscribe(wake.CHANNEL)
        until(heard.get_message, "the subscription")
        with no_thread():
            made.announce(TOPIC, 1, routed=False)
        made.announce(TOPIC + 1, 2, routed=False)
        wanted = b'"%d 1 %d 2"' % (TOPIC, TOPIC + 1)
        until(lambda: wanted in (heard.get_message() or {"data": b""})["data"], "both wake-ups")
