"""Tell whoever waits for a topic that its head moved. A hint only: what is lost here costs a delay, never a record.

In this process the listeners are called at once. Other processes hear it through Redis, and the routers of
the topic through Celery; both leave from a thread of their own after the commit, merged by topic.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import redis
from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

if TYPE_CHECKING:
    from topics.cache import Known

log = logging.getLogger(__name__)
CHANNEL = "events_channel"  # django-eventstream's, whose Redis listener hears it (watch/wakes.py)
# An event as django-eventstream writes them; its data is topic ids, each with its head: "17 4711 18 3".
MESSAGE = '{"channel":"topics","event_type":"moved","data":"%s","pub_id":null}'
PAUSE_SECONDS = 0.005  # between two rounds: an idle topic is told at once; under load they merge, 200 a second at most
UNHEARD_SECONDS = 0.05  # after a round that nobody heard: a process whose first stream begins now hears of the next
READER_SECONDS = 0.002  # before a worker is asked: who reads what he wrote advances the dest himself, undisturbed
RETRY_SECONDS = 1.0  # after Redis failed

Listener = Callable[[int, int], None]  # topic id, head seq; called in the thread that appended
listeners: list[Listener] = []

_heads: dict[int, int] = {}
_routed: set[int] = set()
_lock = threading.Lock()
_pending = threading.Event()
_hurry = threading.Event()  # a worker has something to forward
_busy: set[int] = set()  # routed topics that a worker was at, when last asked: it looks at them again by itself
_thread: threading.Thread | None = None


def moved(topic: Known, head_seq: int) -> None:
    """A topic's head moved, and it is committed."""
    announce(topic.id, head_seq, topic.routed)


def announce(topic_id: int, head_seq: int, routed: bool) -> None:
    for listener in listeners:
        listener(topic_id, head_seq)
    with _lock:
        _heads[topic_id] = head_seq
        if routed:
            _routed.add(topic_id)
            if topic_id not in _busy and not _hurry.is_set():
                _hurry.set()
    if not _pending.is_set():
        _pending.set()
        start()


def start() -> None:
    """Start this process's sender, if it does not run (after a fork it does not)."""
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=send_forever, name="wake", daemon=True)
        _thread.start()


def send_forever() -> None:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
    while True:
        _pending.wait()
        _pending.clear()
        _hurry.clear()
        with _lock:
            heads, routed = dict(_heads), set(_routed)
            _heads.clear()
            _routed.clear()
        try:
            heard = send(client, heads, routed)
            time.sleep(PAUSE_SECONDS)
            if not heard:
                _hurry.wait(UNHEARD_SECONDS)
        except (redis.RedisError, BrokerError, OSError) as error:
            log.warning("wake-ups wait for Redis: %s", error)
            time.sleep(RETRY_SECONDS)
        except Exception:
            log.exception("a wake-up was lost")
            time.sleep(RETRY_SECONDS)


def send(client: redis.Redis, heads: dict[int, int], routed: set[int]) -> bool:
    """Answers whether any process listens."""
    global _busy
    # One message for all of them: a command each would take the interpreter from the appends it speaks of.
    message = MESSAGE % " ".join(f"{id} {head}" for id, head in heads.items())
    heard: int = client.execute_command("PUBLISH", CHANNEL, message)
    if routed:
        from routers.tasks import request_advance  # routers builds on topics, not the other way round

        time.sleep(READER_SECONDS)
        _busy = request_advance(client, routed)
    return heard > 0
