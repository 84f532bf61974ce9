"""A plugin of pytest: each instance that a test starts is reached through a gateway, of one cluster or of two.

`GATEWAY_OF=2 python -m pytest -p tests.gateway.through tests/api/test_append.py` runs the wire's own tests that way, unchanged.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import instances
from tests.gateway.running import Running, by_topic, cluster

_start = instances.start
_other = contextlib.ExitStack()
_ports: list[int] = []


def other_port() -> int:
    """The second server, the same for all gateways of this process. No topic leads there."""
    if not _ports:
        _ports.append(_other.enter_context(_start()).port)
    return _ports[0]


def configuration(port: int) -> dict:
    hosts = [{"host": "127.0.0.1"}, {"host": "localhost"}]
    if os.environ.get("GATEWAY_OF", "1") == "1":
        return {
            "clusterDefinitions": [cluster("one", port)],
            "virtualClusters": [{"name": "all", "gateways": hosts, "target": {"cluster": "one"}}],
        }
    found = by_topic(other_port(), port, prefixes={"no-such-topic.": "eu"})
    found["virtualClusters"][0]["gateways"] = hosts
    return found


@contextlib.contextmanager
def start(**settings: str) -> Iterator[instances.Instance]:
    with _start(**settings) as instance, tempfile.TemporaryDirectory() as folder:
        running = Running(Path(folder), configuration(instance.port)).start()
        real, instance.port = instance.port, running.port
        try:
            yield instance
        finally:
            instance.port = real
            running.kill()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what asks the views of this process, and no instance."""
    items[:] = [each for each in items if not asks_views(each)]


def asks_views(item: pytest.Item) -> bool:
    return "views" in getattr(item, "fixturenames", ())


def pytest_configure() -> None:
    instances.start = start


def pytest_unconfigure() -> None:
    _other.close()
