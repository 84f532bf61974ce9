"""Fixtures of the watch tests: calls on the shared instance, and a name that nobody else uses."""

import pytest

from tests.instances import Instance
from tests.watch.wire import Api, new_name


@pytest.fixture
def api(server: Instance) -> Api:
    return Api(server.port)


@pytest.fixture
def name() -> str:
    return new_name()
