"""Fixtures of the tests of WebSockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.instances import Instance
from tests.sockets.client import Socket
from tests.watch.wire import Api


@pytest.fixture
def api(server: Instance) -> Api:
    return Api(server.port)


@pytest.fixture
def socket(server: Instance) -> Iterator[Socket]:
    with Socket(server.port) as socket:
        yield socket
