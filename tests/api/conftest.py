"""Fixtures of the API's tests: a door to knock at, and a name that nobody else uses."""

import uuid

import pytest

from tests.api.doors import Door, Lane, Views


@pytest.fixture(params=["lane", "views"])
def door(request: pytest.FixtureRequest, db: None) -> Door:
    """Both doors, one after the other: what holds behind one has to hold behind the other."""
    return Lane(request.getfixturevalue("server").port) if request.param == "lane" else Views()


@pytest.fixture
def api(door: Door) -> Door:
    return door


@pytest.fixture
def views(db: None) -> Door:
    """The views alone: for tests that look into the database beside them, or change the settings of this process."""
    return Views()


@pytest.fixture
def live(server) -> Door:
    """A running instance."""
    return Lane(server.port)


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
