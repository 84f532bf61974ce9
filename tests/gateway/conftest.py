from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.gateway.running import Client, Running
from tests.gateway.streams import Stream
from tests.instances import Instance, start


@pytest.fixture(scope="session")
def two_servers() -> Iterator[tuple[Instance, Instance]]:
    """Two servers for all tests of this process: use names of your own in them, and kill none."""
    with start(PUSH_CALLBACK_LOOPBACK_HTTP="1") as first, start(PUSH_CALLBACK_LOOPBACK_HTTP="1") as second:
        yield first, second


@pytest.fixture
def gateways(tmp_path: Any) -> Iterator[Callable[..., Running]]:
    """`gateways(configuration, *options, SETTING="…")` starts a gateway, which ends with the test."""
    with ExitStack() as stack:

        def begin(configuration: dict[str, Any], *options: str, ready: bool = True, **settings: str) -> Running:
            folder = tmp_path / f"gateway-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            running = Running(folder, configuration, settings, options)
            stack.callback(running.kill)
            return running.start(ready=ready)

        yield begin


@pytest.fixture
def direct() -> Iterator[Callable[[Instance], Client]]:
    """`direct(server)` is a connection past the gateway, which ends with the test."""
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(closing(Client(server.port)))


@pytest.fixture
def streams() -> Iterator[Callable[..., Stream]]:
    """`streams(gateway, path, *headers)` opens a stream, which ends with the test."""
    with ExitStack() as stack:
        yield lambda *wanted: stack.enter_context(closing(Stream(*wanted)))


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:80]
