"""Fixtures of the tests of consumer groups: calls on the shared instance, and a topic that nobody else uses."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.groups.member import Member, joined
from tests.instances import Instance
from tests.watch.wire import Api, new_name

Join = Callable[..., Member]


@pytest.fixture
def join(api: Api) -> Iterator[Join]:
    """`join(topic, group, member="one")` opens a stream, which is closed with the test."""
    with ExitStack() as stack:

        def join(topic: str, group: str = "billing", **options: Any) -> Member:
            member = joined(api, topic, group, **options)
            stack.callback(member.close)
            return member

        yield join


@pytest.fixture
def api(server: Instance) -> Api:
    return Api(server.port)


@pytest.fixture
def topic(api: Api) -> str:
    name = new_name("g")
    api.done("PUT", f"/v0/topics/{name}", {})
    return name
