"""Fixtures of the bus's tests: an instance that trusts the test's certificates, its clients, and callback servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme

from tests.instances import WHOLE, Instance, start
from tests.push.bus import ROOT, Client, new_client, new_topic
from tests.push.receiver import Receiver

if TYPE_CHECKING:
    from tests.push.desk import Desk


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def ca_file(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(scope="session")
def settings_of_bus(ca_file: Path) -> dict[str, str]:
    """A bus whose failures do not take minutes to be forgiven, nor hanging callbacks to be given up."""
    return {
        "ROUTEMASTER_ROOT_KEY": ROOT,
        "PUSH_CALLBACK_CA": str(ca_file),
        "ROUTEMASTER_TIMEOUT": "2",
        "MAX_BACKOFF_MS": "1000",
        "ROUTEMASTER_MIN_BACKOFF_MS": "0",
        "ROUTEMASTER_CLIENTS": "seeded--0123456789,plain",
    }


@pytest.fixture(scope="package")
def bus(settings_of_bus: dict[str, str]) -> Iterator[Instance]:
    """A whole running instance for all tests of the bus to share: use clients and topics of your own."""
    with start(**WHOLE, **settings_of_bus) as instance:
        yield instance


@pytest.fixture(scope="package")
def strict(settings_of_bus: dict[str, str]) -> Iterator[Instance]:
    """An instance that may not call 127.0.0.2, calls this machine in the clear, rejects unknown topics, and whose queues may
    hold little."""
    limits = {"ROUTEMASTER_REDIS_MAX_MEM": "10000", "ROUTEMASTER_REDIS_MIN_FREE": "3000"}
    calls = {"PUSH_CALLBACK_DENY": "127.0.0.2/32", "PUSH_CALLBACK_LOOPBACK_HTTP": "1"}
    unknown = {"ROUTEMASTER_UNKNOWN_TOPICS": "reject"}
    with start(**{**WHOLE, **settings_of_bus, **limits, **calls, **unknown}) as instance:
        yield instance


@pytest.fixture(scope="package")
def desk(bus: Instance) -> Desk:
    from tests.push.desk import Desk  # needs settings

    return Desk(bus)


@pytest.fixture
def root(bus: Instance) -> Client:
    return Client(bus, "root", ROOT)


@pytest.fixture
def client(bus: Instance) -> Callable[[], Client]:
    return lambda: new_client(bus)


@pytest.fixture
def publisher(bus: Instance) -> Client:
    return new_client(bus)


@pytest.fixture
def subscriber(bus: Instance) -> Client:
    return new_client(bus)


@pytest.fixture
def topic() -> str:
    return new_topic()


@pytest.fixture
def receiver(ca: trustme.CA) -> Iterator[Receiver]:
    made = Receiver(ca)
    yield made
    made.end()
