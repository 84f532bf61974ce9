"""An empty outbox, other clients of PostgreSQL, and a relay that the test drives round by round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # pytest loads this file before Django is set up
    from outbox.relay import Relay
    from tests.outbox.clients import Clients


@pytest.fixture
def client(transactional_db: None) -> Iterator[Clients]:
    """`client()` is another session."""
    from tests.outbox import clients

    clients.empty_outbox()
    with ExitStack() as stack:
        yield lambda: clients.connecting(stack)
    clients.empty_outbox()


@pytest.fixture
def relay(client: Clients) -> Iterator[Relay]:
    """Its session has the limits of a relay: a round that waits for the lock of another session for too long raises NotReady."""
    from django.db import connection

    from outbox.relay import Relay, connect

    connect()
    yield Relay()
    connection.close()
