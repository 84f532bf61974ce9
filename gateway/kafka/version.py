"""A Kafka cluster under one version of its settings. A changed file makes another version (serve.py, KafkaEngine)."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

from gateway.configuration.shapes import KafkaTopicDefaults
from gateway.kafka.client import KafkaClients
from gateway.kafka.cursors import KafkaCursors
from gateway.kafka.keyed import KeyedLanes
from gateway.kafka.lanes import ProducerLanes
from gateway.kafka.pages import TopicPages
from gateway.kafka.tails import KafkaTail
from gateway.kafka.topics import KafkaTopics

log = logging.getLogger(__name__)
REST_SECONDS = 1.0  # until another attempt to close


class ClusterVersion:
    """All that holds a client of the cluster. A call stays with the version with which it began. A stream moves to the next."""

    def __init__(self, settings: dict[str, Any], defaults: KafkaTopicDefaults, seconds: float) -> None:
        self.settings = settings
        self.following: ClusterVersion | None = None
        self.clients = KafkaClients(settings, seconds)
        self.topics = KafkaTopics(self.clients, defaults)
        self.keyed = KeyedLanes(self.clients, defaults.replication_factor)
        self.lanes, self.tail = ProducerLanes(self.clients), KafkaTail(self.clients, self.topics)
        self.pages = TopicPages(self.clients, self.topics, self.tail)
        self.cursors = KafkaCursors(self.clients, self.pages)

    @property
    def newest(self) -> ClusterVersion:
        found = self
        while found.following is not None:
            found = found.following
        return found

    def retire(self, following: ClusterVersion | None = None) -> None:
        """Ends the tail, so that streams move on. The clients close after the calls that use them."""
        self.following = following
        self.tail.close()
        self.clients.when_unused(self.close)

    def close(self) -> None:
        """Closes the clients, in a thread because they block. Appends that wait are still written."""
        self.lanes.close()
        self.keyed.close()
        try:
            threading.Thread(target=self.finish, name="kafka-close", daemon=True).start()
        except RuntimeError as error:  # the machine has none to give for a while
            log.warning("Clients of Kafka are closed later: %s", error)
            asyncio.get_running_loop().call_later(REST_SECONDS, self.close)

    def finish(self) -> None:
        self.lanes.join()
        self.keyed.join()  # the lanes of keys use all clients
        self.clients.threads.shutdown()
        self.pages.readers.close()
        self.clients.close()
