"""Fixtures of the API's tests: ways into the server, and a name that nobody else uses."""

import uuid

import pytest

from tests.api.clients import ApiClient, HttpClient, ViewClient


@pytest.fixture
def live(server) -> ApiClient:
    """A running instance. test_lanes.py holds the views against it."""
    return HttpClient(server.port)


api = live


@pytest.fixture
def views(db: None) -> ApiClient:
    """The views alone: for tests that look into the database beside them, or change the settings of this process."""
    return ViewClient()


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def keys(settings):
    """`keys("secret:read+write:prefix")` are the keys of the views from here on."""
    from wire.access.keys import keyring  # this file is read before Django is set up

    def use(text: str) -> None:
        settings.TOPICS_API_KEYS = text
        keyring._fixed = None
        keyring.forget()

    yield use
    keyring._fixed = None
    keyring.forget()
