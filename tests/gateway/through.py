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

# What a gateway does in its own way.
OTHERWISE = {
    "api/test_http.py::test_a_host_that_is_none_is_refused_in_json": "the host names a virtual cluster, and there is none",
    "api/test_http.py::test_a_body_is_asked_for_once_its_client_is_known": "it asks for a body before it asks its server",
    "api/test_diff.py::test_a_get_is_refused_and_told_what_may_be_done": "a router refuses a call that it does not know with 501",
    "watch/test_sessions.py::test_it_works": "the gateway's wid holds that of the server",
    "watch/test_sessions.py::test_other_methods": "501",
    "watch/test_sessions.py::test_256_topics": "the id of an event holds that of the server",
    "watch/test_eventstream.py::test_what_is_refused": "501",
    "push/test_contract.py::test_without_clients_there_is_no_list": "the gateway is asked in the name of its virtual cluster",
    "push/test_contract.py::test_other_methods_are_not_allowed": "501",
}
_start = instances.start
_other = contextlib.ExitStack()
_ports: list[int] = []


def other_port() -> int:
    """The second server, the same for all gateways of this process. No topic leads there."""
    if not _ports:
        _ports.append(_other.enter_context(_start()).port)
    return _ports[0]


def configuration(port: int) -> dict:
    hosts = [{"host": "127.0.0.1"}, {"host": "localhost"}, {"host": "x"}]
    if os.environ.get("GATEWAY_OF", "1") == "1":
        return {
            "clusterDefinitions": [cluster("one", port)],
            "virtualClusters": [{"name": "all", "gateways": hosts, "target": {"cluster": "one"}}],
        }
    found = by_topic(other_port(), port, prefixes={"no-such-topic.": "eu"})
    found["virtualClusters"][0]["gateways"] = hosts
    return found


@contextlib.contextmanager
def behind(settings: dict[str, str]) -> Iterator[instances.Instance]:
    """The instance behind a gateway. The shared one is that of the test run outside (test_contract.py), which has started it."""
    if settings == instances.WHOLE and "GATEWAY_SHARED" in os.environ:
        data, _, port = os.environ["GATEWAY_SHARED"].rpartition(":")
        yield instances.Instance(Path(data), int(port), settings)
    else:
        with _start(**settings) as instance:
            yield instance


@contextlib.contextmanager
def start(**settings: str) -> Iterator[instances.Instance]:
    with behind(settings) as instance, tempfile.TemporaryDirectory() as folder:
        running = Running(Path(folder), configuration(instance.port)).start()
        real, instance.port = instance.port, running.port
        try:
            yield instance
        finally:
            instance.port = real
            running.kill()


instances.start = start  # before conftest.py takes it from there


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what asks the views of this process, and no instance, and what a gateway does otherwise."""
    items[:] = [each for each in items if not asks_views(each) and not each.nodeid.endswith(tuple(OTHERWISE))]


def asks_views(item: pytest.Item) -> bool:
    return "views" in getattr(item, "fixturenames", ())


def pytest_unconfigure() -> None:
    _other.close()
