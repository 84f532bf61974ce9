"""Tells whoever waits for a topic that its head moved. A hint only: a lost one costs a delay, never a record.

In this process the listeners are called at once. Other processes hear of it through Redis, and the topic's routers
through a hook; both leave from a thread of their own after the commit, merged by topic.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import redis
from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

from topics.cache import CachedTopic

log = logging.getLogger(__name__)
CHANNEL = "events_channel"  # the one of django-eventstream's Redis listener (watch/wakes.py)
# An event as django-eventstream writes them; its data is topic ids, each with its head: "17 4711 18 3".
MESSAGE = '{"channel":"topics","event_type":"moved","data":"%s","pub_id":null}'
PAUSE_SECONDS = 0.005  # between two rounds: an idle topic is told at once; under load they merge, 200 a second at most
UNHEARD_SECONDS = 0.05  # after a round that nobody heard: a process whose first stream begins now hears of the next
READER_SECONDS = 0.002  # before a worker is asked: who reads what he wrote advances the dest himself, undisturbed
RETRY_SECONDS = 1.0  # after Redis failed

Listener = Callable[[int, int], None]  # topic id, head seq; called in the thread that appended
# Gets topics with routers that moved. Returns those that a worker is at already: it looks at them again by itself.
# Called in the sender's thread, with its connection to Redis.
RoutedHook = Callable[["redis.Redis", set[int]], set[int]]


class Wake:
    """The wake-ups of one process: any thread announces, and one thread of our own sends.

    `lock` guards `heads` and `routed`, which every announcing thread writes and the sender takes and empties. It is
    held for a few instructions and never while somebody is called, so no other lock can be waited for under it.
    `starting` guards `thread`, so that two threads that announce at once start one sender.

    `busy` needs no lock. Only the sender writes it, each time as a whole new set, and an announcing thread that still
    sees the one before merely hurries the sender without need, or lets it pause its 50 ms first.

    The events stand for "there is something to send" (`pending`) and "a worker has something to forward" (`hurry`).
    The sender clears both before it takes what there is, and the announcer sets them after it has put something
    there. A wake-up that comes in between may be sent twice and is never left behind. What Redis did not take is lost;
    whoever waits then looks for himself within a second.
    """

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.on_routed: list[RoutedHook] = []
        self.lock = threading.Lock()
        self.heads: dict[int, int] = {}
        self.routed: set[int] = set()
        self.pending = threading.Event()
        self.hurry = threading.Event()
        self.busy: set[int] = set()
        self.starting = threading.Lock()
        self.thread: threading.Thread | None = None

    def announce(self, topic_id: int, head_seq: int, routed: bool) -> None:
        """Tell everybody that a topic's head moved, which has been committed. `routed`: the topic has routers."""
        for listener in self.listeners:
            listener(topic_id, head_seq)
        with self.lock:
            # Of two threads the one that committed first may come here last. A head that seems to sink is harmless:
            # who hears of it looks for itself, or has been told the higher one already.
            self.heads[topic_id] = head_seq
            if routed:
                self.routed.add(topic_id)
                if topic_id not in self.busy and not self.hurry.is_set():
                    self.hurry.set()
        if not self.pending.is_set():
            self.pending.set()
            self.start()

    def start(self) -> None:
        """Start this process's sender unless it runs. After a fork it does not: threads stay with the parent."""
        with self.starting:
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self.send_forever, name="wake", daemon=True)
                self.thread.start()

    def send_forever(self) -> None:
        client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
        while True:
            self.pending.wait()
            heads, routed = self.take()
            try:
                heard = self.send(client, heads, routed)
                time.sleep(PAUSE_SECONDS)
                if not heard:
                    self.hurry.wait(UNHEARD_SECONDS)
            except (redis.RedisError, BrokerError, OSError) as error:
                log.warning("wake-ups wait for Redis: %s", error)
                time.sleep(RETRY_SECONDS)
            except Exception:
                log.exception("a wake-up was lost")
                time.sleep(RETRY_SECONDS)

    def take(self) -> tuple[dict[int, int], set[int]]:
        """Returns what is to be sent: the heads of all topics that moved, and which of these topics have routers."""
        self.pending.clear()
        self.hurry.clear()
        with self.lock:
            heads, self.heads = self.heads, {}
            routed, self.routed = self.routed, set()
        return heads, routed

    def send(self, client: redis.Redis, heads: dict[int, int], routed: set[int]) -> bool:
        """Tell the other processes, then the routers. Returns whether any process listens."""
        # One message for all of them: a command each would take the interpreter from the appends it speaks of.
        message = MESSAGE % " ".join(f"{id} {head}" for id, head in heads.items())
        heard: int = client.execute_command("PUBLISH", CHANNEL, message)
        if routed and self.on_routed:
            time.sleep(READER_SECONDS)
            self.busy = set().union(*(hook(client, routed) for hook in self.on_routed))
        return heard > 0


process = Wake()  # the one of this process
listeners, announce = process.listeners, process.announce
on_routed = process.on_routed  # routers/apps.py puts its hook here: routers build on topics, not the other way round


def moved(topic: CachedTopic, head_seq: int) -> None:
    """Tell everybody that a topic's head moved, which has been committed."""
    announce(topic.id, head_seq, topic.routed)
