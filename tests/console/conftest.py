"""The console as people see it: in Django's test client, and in Chromium against a whole instance. Models are imported in the
fixtures: this file is read before Django knows its settings."""

from collections.abc import Iterator

import pytest

from tests.admin.conftest import browser, queries, viewer
from tests.console.chromium import Chromium, signed_in
from tests.instances import Instance

__all__ = ["browser", "queries", "viewer"]


@pytest.fixture(scope="session")
def chromium(server: Instance) -> Iterator[Chromium]:
    """A headless Chromium whose user is the admin of the shared instance."""
    with signed_in(server) as found:
        yield found


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """Ids come again in a database that is rolled back."""
    from console.records import records

    yield
    records._pictures.clear()
