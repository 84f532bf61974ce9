"""The clients of librdkafka for one Kafka cluster, and the threads in which they block."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from base.errors import BatchTooLarge, Forbidden, Incompatible, InvalidRequest, NotReady, TopicNotFound, TopicsError
from gateway.configuration.shapes import KafkaDefinition
from gateway.watched_file import WatchedFiles

log = logging.getLogger(__name__)
Result = TypeVar("Result")
LOOK_UP_SECONDS = 1.0
THREADS = 16  # blocking calls at once. More wait
# librdkafka does not know the topic: it was deleted, or no broker answers.
UNKNOWN = frozenset((KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION))
DENIED = frozenset(
    (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    )
)
INVALID = frozenset(
    (
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
    )
)


class MaybeAbsent(NotReady):
    """A topic that was there a moment ago was not found."""


class KafkaClients:
    """The clients of one Kafka cluster. Each begins to connect when it is used first.

    `seconds`: the longest time for a call.
    """

    def __init__(self, settings: dict[str, Any], seconds: float) -> None:
        self.settings, self.seconds = settings, seconds
        self.threads = ThreadPoolExecutor(THREADS, "kafka")
        self.users = 0  # calls under way
        self.unused: Callable[[], None] | None = None

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient(self.settings)

    @cached_property
    def asker(self) -> Consumer:
        """A consumer that reads nothing: it asks for offsets. Several threads can use it."""
        return self.consumer()

    def consumer(self, **more: Any) -> Consumer:
        """Returns a consumer without a group. It sees committed records, and the end of a topic as an error."""
        return Consumer(
            {
                **self.settings,
                "group.id": "topics-gateway",  # never joined, and nothing is committed
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                **more,
            }
        )

    def producer(self, **more: Any) -> Producer:
        return Producer({**self.settings, **more})

    async def run(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """Returns the result of a blocking call."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, call, *arguments)

    async def ends(self, topic: str) -> tuple[int, int]:
        """Returns the first offset that the topic holds, and the offset after the last one that readers may see."""
        try:
            return await self.run(
                lambda: self.asker.get_watermark_offsets(TopicPartition(topic, 0), timeout=self.seconds)
            )
        except KafkaException as error:
            raise refused(error, topic) from error

    async def offset_at(self, topic: str, ts: int) -> int | None:
        """Returns the first offset with this time or a later one, or None."""
        wanted = [TopicPartition(topic, 0, ts)]
        try:
            (found,) = await self.run(lambda: self.asker.offsets_for_times(wanted, timeout=self.seconds))
        except KafkaException as error:
            raise refused(error, topic) from error
        if found.error is not None:
            raise refused(KafkaException(found.error), topic)
        return found.offset if found.offset >= 0 else None

    @contextmanager
    def used(self) -> Iterator[None]:
        """A call that uses the clients. They stay open until its end."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            if not self.users and self.unused is not None:
                self.when_unused(self.unused)

    def when_unused(self, do: Callable[[], None]) -> None:
        """Calls `do` once, as soon as no call uses the clients."""
        self.unused = do if self.users else None
        if self.unused is None:
            do()

    def close(self) -> None:
        """Closes the clients that all calls share. The other ones are closed where they were made. Blocks."""
        asker = self.__dict__.pop("asker", None)
        if asker is not None:
            asker.close()
        self.__dict__.pop("admin", None)  # closes when nothing refers to it


async def outcome(future: Future[Result], topic: str = "") -> Result:
    """Returns the result of a call of the AdminClient. Raises TopicsError."""
    try:
        return await asyncio.wrap_future(future)
    except KafkaException as error:
        raise refused(error, topic) from error


def watched_settings(definition: KafkaDefinition, folder: Path) -> WatchedFiles[dict[str, Any]]:
    """Returns the settings that all clients have. Raises OSError, ValueError for an invalid file."""
    security = definition.security
    given = {
        "sasl.password": security.password_file,
        "ssl.ca.pem": security.ca,
        "ssl.certificate.pem": security.certificate,
        "ssl.key.pem": security.key,
    }
    files = {name: folder / file for name, file in given.items() if file is not None}
    return WatchedFiles(list(files.values()), lambda: settings_of(definition, files))


def settings_of(definition: KafkaDefinition, files: Mapping[str, Path]) -> dict[str, Any]:
    """Returns the settings with the content of the files. So a client that is made later does not read a later file.

    Raises OSError, ValueError.
    """
    security = definition.security
    found: dict[str, Any] = {
        "bootstrap.servers": definition.bootstrap_servers,
        "client.id": "topics-gateway",
        "security.protocol": security.protocol,
        "log_level": 2,  # a line for each failed connection would fill the log (KafkaEngine.is_ready)
        "allow.auto.create.topics": False,
        "reconnect.backoff.max.ms": 1000,
    }
    if security.mechanism is not None:
        found["sasl.mechanism"], found["sasl.username"] = security.mechanism, security.username
    for name, file in files.items():
        found[name] = file.read_text().strip()
        if not found[name]:
            raise ValueError(f"{file} is empty")
    try:
        AdminClient({**found, "bootstrap.servers": ""})  # it checks the settings, and connects to nothing
    except KafkaException as error:
        raise ValueError(error.args[0].str()) from error
    return found


def refused(error: KafkaException, topic: str = "") -> TopicsError:
    """Returns the error for a client. Errors that pass by themselves are 503."""
    told: KafkaError = error.args[0]
    code = told.code()
    if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return absent(topic)
    if code in UNKNOWN:
        return MaybeAbsent(f"Kafka did not find the topic {topic!r}")
    if code in DENIED:
        return Forbidden(f"Kafka refused this to the gateway: {told.str()}")
    if code in INVALID:
        return InvalidRequest(f"Kafka refused the topic: {told.str()}")
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return Incompatible(f"the topic {topic!r} was created at the same time: send again", topic=topic)
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return BatchTooLarge("Kafka refused the append as too large: send smaller batches")
    log.warning("Kafka: %s", told.str())
    return NotReady(f"Kafka did not do it: {told.str()}")


def look_up(client: Consumer | Producer, topic: str) -> None:
    """Lets a client find the leader of a topic that it uses first. By itself it looks after half a second. Blocks."""
    try:
        client.list_topics(topic, timeout=LOOK_UP_SECONDS)
    except KafkaException as error:
        log.debug("The leader of %s was not found: %s", topic, error)


def offset_of(message: Message) -> int:
    """Returns the offset of a message that a consumer got."""
    found = message.offset()
    assert found is not None
    return found


def absent(topic: str) -> TopicNotFound:
    return TopicNotFound(f"topic {topic!r} does not exist", topic=topic)
