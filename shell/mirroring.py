"""The process of a mirror (`topics mirror`): finds the topics, and runs a flow for each topic and direction (flow.py)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from base.errors import TopicsError
from base.refusal import Refusal
from shell.flow import Address, Failed, Flow, FlowEnd
from shell.printing import say
from shell.server import listed, path

MOST_TOPICS = 256
LOOK_SECONDS = 5.0  # between two looks for new topics
TICK_SECONDS = 0.1
CONFIG_LEFT_OUT = ("durable", "sealed")  # `durability` says the first, and a sealed topic takes no records


class Mirror:
    """Mirrors topics between two servers. Raises Refusal if a call can never succeed."""

    def __init__(
        self,
        here: Address,
        there: Address,
        topics: Sequence[str],
        prefixes: Sequence[str],
        *,
        one_way: bool,
        once: bool,
    ) -> None:
        """`topics`, `prefixes`: names of topics, and beginnings of names. `once`: end when all records are mirrored."""
        if here.url.rstrip("/") == there.url.rstrip("/"):
            raise Refusal(f"both URLs are {here.url}: use the URLs of two servers")
        self.here, self.there = FlowEnd(here), FlowEnd(there)
        self.ways = [(self.here, self.there)] if one_way else [(self.here, self.there), (self.there, self.here)]
        self.topics, self.prefixes, self.once = topics, prefixes, once
        self.flows: dict[str, list[Flow]] = {}
        self.skipped: set[str] = set()  # topics whose absence or type was printed
        self.trouble = ""
        self.stopping = threading.Event()

    def run(self) -> None:
        """Mirrors until `stopping` is set, or with `once` until all records are mirrored."""
        looks_at = 0.0
        try:
            while not self.stopping.is_set():
                if time.monotonic() >= looks_at:
                    self.look()
                    looks_at = time.monotonic() + LOOK_SECONDS
                self.check()
                if self.once and not any(flow.is_alive() for flow in self.running()):
                    return
                self.stopping.wait(TICK_SECONDS)
        finally:
            self.end()

    def running(self) -> list[Flow]:
        return [flow for flows in self.flows.values() for flow in flows]

    def look(self) -> None:
        """Starts the flows of topics that have none yet."""
        if not self.prefixes and len(self.flows) == len(self.topics):
            return
        try:
            for topic in self.wanted():
                if topic not in self.flows:
                    self.start(topic)
            if self.trouble:
                say("looks for topics again")
            self.trouble = ""
        except Failed as failed:
            if self.once or not failed.is_temporary:
                raise Refusal(str(failed)) from failed
            if str(failed) != self.trouble:
                say(f"waits. {failed}")
            self.trouble = str(failed)

    def wanted(self) -> list[str]:
        """Returns the names of the topics. Raises Refusal if they are too many."""
        names = dict.fromkeys(self.topics)
        for source, _ in self.ways:
            for prefix in self.prefixes:
                try:
                    found = [
                        each["topic"] for each in listed(source.server, path("topics"), "topics", {"prefix": prefix})
                    ]
                except TopicsError as error:
                    raise Failed(source.at, error) from error
                names.update(dict.fromkeys(found))
        if len(names) > MOST_TOPICS:
            raise Refusal(
                f"{len(names)} topics: expected at most {MOST_TOPICS}. Use several mirrors with other prefixes"
            )
        return list(names)

    def start(self, topic: str) -> None:
        """Starts the flows of a topic, unless no source has it. Raises Failed or Refusal."""
        found = [(config_of(source, topic), source, dest) for source, dest in self.ways]
        found.sort(key=lambda way: way[0] is None)  # the first flow creates the topic, if the other source lacks it
        config = found[0][0]
        if config is None or config["type"] == "queue":
            self.skip(topic, config)
            return
        given = {name: value for name, value in config.items() if name not in CONFIG_LEFT_OUT}
        flows = [Flow(topic, source.at, dest.at, given, once=self.once) for _, source, dest in found]
        if len(flows) == 2:
            flows[0].back, flows[1].back = flows[1], flows[0]
        for flow in flows:
            flow.begin()
        self.flows[topic] = flows  # so that those that run are stopped if another one does not start
        for flow in flows:
            try:
                flow.start()
            except RuntimeError as error:
                raise Refusal(f"{flow.label}: did not start ({error}): allow more threads or processes") from error

    def skip(self, topic: str, config: dict[str, Any] | None) -> None:
        """Tells once that a topic is absent or a queue. Raises Refusal if a queue was named, or nothing can be waited for."""
        why = "does not exist yet" if config is None else "is a queue, and a mirror needs logs"
        if topic in self.topics and (self.once or config is not None):
            raise Refusal(f"topic {topic!r} {why}")
        if topic not in self.skipped:
            say(f"{topic}: left out, because it {why}")
        self.skipped.add(topic)

    def check(self) -> None:
        """Raises Refusal if a flow has ended by a failure."""
        for flow in self.running():
            if flow.failure is not None:
                raise Refusal(flow.failure.removeprefix("topics: "))

    def end(self) -> None:
        """Stops the flows, each after its window, and stores their positions."""
        for flow in self.running():
            try:
                flow.stop()
            except Failed as failed:
                say(f"{flow.label}: the last position is not stored, and will be found at the dest. {failed}")


def config_of(end: FlowEnd, topic: str) -> dict[str, Any] | None:
    """Returns the config of a topic, or None if the topic does not exist."""
    try:
        config: dict[str, Any] = end.topic(topic)["config"]
    except Failed as failed:
        if failed.error.code != "topic_not_found":
            raise
        return None
    return config
