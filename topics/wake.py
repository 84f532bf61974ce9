"""Wake-ups: messages that a topic's head moved. A wake-up is only a hint: a lost one costs a delay, never a record.

Listeners in this process are called at once. Other processes get wake-ups through Redis, and the topic's routers through a
hook. A thread of its own sends both after the commit, merged by topic.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable

import redis
from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

from base import outage, redis_client
from base.slot import Slot
from topics.append.written import Written
from topics.cache import CachedTopic, reached

log = logging.getLogger(__name__)
CHANNEL = f"{settings.TOPICS_REDIS_PREFIX}moved"
# A message as django-eventstream writes it. Its data is topic ids, each with its head: "17 4711 18 3". Its id is the sender.
MESSAGE = '{"channel":"topics","event_type":"moved","data":"%s","pub_id":"%s"}'
STARTED = secrets.token_hex(8)  # the same in all forks of a process
PAUSE_SECONDS = 0.005  # between two rounds: an idle topic is sent at once, a busy one at most 200 times a second
# After a round that reached no new process. The next round reaches a process with a first stream or a lost hint.
UNHEARD_SECONDS = 0.05
READER_SECONDS = 0.002  # before a worker is asked: a client that reads its own write advances the dest itself
RETRY_SECONDS = 1.0  # after Redis failed

Listener = Callable[[int, int, Written | None], None]  # topic id, head seq; called in the thread that appended
# Gets moved topics with routers. Returns the topics that a worker already handles: the worker looks at them again by
# itself. Called in the sender's thread, with the sender's connection to Redis.
RoutedHook = Callable[["redis.Redis", set[int]], set[int]]
on_routed: Slot[RoutedHook] = Slot()


def sender() -> str:
    """Returns the name of this process in its wake-ups. A process skips its own, because its listeners were already called."""
    return f"{STARTED} {os.getpid()}"


class Wake:
    """The wake-ups of one process: any thread announces, and a single thread sends.

    `lock` guards `heads` and `routed`: every announcing thread writes to them, and the sender empties them. A thread holds
    the lock for a few instructions and makes no calls under the lock, so a deadlock is impossible. `starting` guards
    `thread`, so that two announcing threads start only one sender.

    `busy` needs no lock. Only the sender writes it, each time as a whole new set. An announcing thread with the old set
    does no harm: the sender hurries without need, or finishes its pause of 50 ms.

    The event `pending` means: the sender has entries to send. The event `hurry` means: a worker has records to forward. The
    sender first clears both, then takes the entries. An announcing thread first adds its entry, then sets the events. So a
    wake-up in between can be sent twice, but is never left behind. If Redis does not accept a wake-up, the wake-up is lost.
    Readers look by themselves within a second.

    `listeners` is replaced as a whole, because threads go through it. Beside each listener is a function that returns how many
    processes that listen to Redis have the wake-ups of this process from the listener.
    """

    def __init__(self) -> None:
        self.listeners: dict[Listener, Callable[[], int]] = {}
        self.lock = threading.Lock()
        self.heads: dict[int, int] = {}
        self.routed: set[int] = set()
        self.pending = threading.Event()
        self.hurry = threading.Event()
        self.busy: set[int] = set()
        self.starting = threading.Lock()
        self.thread: threading.Thread | None = None
        self.pace = outage.Pace()

    def listen(self, listener: Listener, told: Callable[[], int] = int) -> None:
        """`told` returns how many processes that listen to Redis the listener tells, this process included. `int` returns 0."""
        self.listeners = {**self.listeners, listener: told}

    def leave(self, listener: Listener) -> None:
        self.listeners = {other: told for other, told in self.listeners.items() if other != listener}

    def announce(self, topic_id: int, head_seq: int, routed: bool, written: Written | None = None) -> None:
        """Announces that a topic's head moved. The caller has committed. `routed`: whether the topic has routers.

        `written`: the records that moved the head, for listeners that then need not read them.
        """
        for listener in self.listeners:
            listener(topic_id, head_seq, written)
        with self.lock:
            # If two threads announce a topic, the thread with the first commit can get here last. A head that seems to fall
            # is harmless: a reader looks for itself, or already knows the higher head.
            self.heads[topic_id] = head_seq
            if routed:
                self.routed.add(topic_id)
                if topic_id not in self.busy and not self.hurry.is_set():
                    self.hurry.set()
        if not self.pending.is_set() and self.start():
            self.pending.set()

    def start(self) -> bool:
        """Starts this process's sender, unless it runs. Returns whether it runs.

        After a fork it does not run, because threads stay with the parent. If the machine has no thread to give, the entries wait
        for the next announcement: the caller has committed, so its work must not fail here.
        """
        with self.starting:
            if self.thread is None or not self.thread.is_alive():
                thread = threading.Thread(target=self.send_forever, name="wake", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    if self.pace.is_due():
                        log.warning("Wake-ups wait for a thread: %s. Readers look by themselves within a second", error)
                    return False
                self.thread = thread
            return True

    def send_forever(self) -> None:
        client = redis_client.connect(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
        while True:
            self.pending.wait()
            heads, routed = self.take()
            try:
                heard = self.send(client, heads, routed)
                time.sleep(PAUSE_SECONDS)
                if not heard:
                    self.hurry.wait(UNHEARD_SECONDS)
            except (redis.RedisError, BrokerError, OSError) as error:
                outage.redis.note(error)
                time.sleep(RETRY_SECONDS)
            except Exception:
                log.exception("A wake-up was lost. The sweep follows within a second")
                time.sleep(RETRY_SECONDS)

    def take(self) -> tuple[dict[int, int], set[int]]:
        """Returns the heads of all moved topics, and the ids of the topics with routers."""
        self.pending.clear()
        self.hurry.clear()
        with self.lock:
            heads, self.heads = self.heads, {}
            routed, self.routed = self.routed, set()
        return heads, routed

    def send(self, client: redis.Redis, heads: dict[int, int], routed: set[int]) -> bool:
        """Sends to the other processes, then to the routers. Returns whether any process heard of them only now.

        While a process begins or ends to listen, the answer can be wrong. Then a process of another machine waits for 50 ms once.
        """
        # One message for all topics: a command per topic would take the interpreter away from the appends.
        message = MESSAGE % (" ".join(f"{id} {head}" for id, head in heads.items()), sender())
        heard: int = client.execute_command("PUBLISH", CHANNEL, message)
        if routed:
            time.sleep(READER_SECONDS)
            self.busy = on_routed.value(client, routed)
        return heard > sum(told() for told in self.listeners.values())


process = Wake()
listen, leave, announce = process.listen, process.leave, process.announce


def moved(topic: CachedTopic, head_seq: int, written: Written | None = None) -> None:
    """Announces that a topic's head moved, and remembers the head's era. The caller has committed."""
    reached(topic, head_seq)
    announce(topic.id, head_seq, topic.routed, written)
