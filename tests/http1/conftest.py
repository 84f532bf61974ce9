from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.http1.served import Served, echo


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """`serve(handler, limits)` starts a server of http1, which ends with the test."""
    with ExitStack() as stack:

        def start(*given: Any) -> Served:
            served = Served(*given)
            stack.callback(served.stop)
            return served

        yield start


@pytest.fixture(scope="module")
def echoing() -> Iterator[Served]:
    served = Served(echo)
    yield served
    served.stop()
