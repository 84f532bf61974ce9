"""The admin as a logged-in user sees it. Models are imported in the fixtures: this file is read before Django
knows its settings."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

SIGNING_IN = 2  # queries of any page: the session and its user


@pytest.fixture
def browser(db: None, django_user_model: type) -> Client:
    client = Client()
    client.force_login(django_user_model.objects.create_superuser("boss"))
    return client


@pytest.fixture
def viewer(db: None, django_user_model: type) -> Client:
    """May look at everything, and change nothing."""
    from django.contrib.auth.models import Permission

    user = django_user_model.objects.create_user("viewer", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture(autouse=True)
def _keys_are_read_anew() -> Iterator[None]:
    """Keys made in a test end with it."""
    from wire.access.keys import keyring

    yield
    keyring.forget()


@pytest.fixture
def queries() -> Callable[[int], AbstractContextManager[None]]:
    """`with queries(1):` fails when the page in it needed more, beside signing in, or counted anything."""

    @contextmanager
    def at_most(most: int) -> Iterator[None]:
        with CaptureQueriesContext(connection) as seen:
            yield
        statements = [each["sql"] for each in seen.captured_queries]
        assert len(statements) <= most + SIGNING_IN, statements
        assert not [each for each in statements if re.search(r"\bcount\((\*|\")", each, re.IGNORECASE)], statements

    return at_most
