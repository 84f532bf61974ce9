"""Fixtures of the API's tests: ways into the server, and a name that nobody else uses."""

import uuid

import pytest

from tests.api.doors import Door, Lane, Views


@pytest.fixture
def live(server) -> Door:
    """A running instance. test_lanes.py holds the views against it."""
    return Lane(server.port)


door = api = live


@pytest.fixture
def views(db: None) -> Door:
    """The views alone: for tests that look into the database beside them, or change the settings of this process."""
    return Views()


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def keys(settings):
    """`keys("secret:read+write:prefix")` are the keys of the views from here on."""
    from wire.keys import keyring  # this file is read before Django is set up

    def use(text: str) -> None:
        settings.TOPICS_API_KEYS = text
        keyring._fixed = None
        keyring.forget()

    yield use
    keyring._fixed = None
    keyring.forget()
