"""Real servers for the tests: PostgreSQL and Redis of the session for what runs in this process (pytest-django makes
its test database on them), and whole instances, as `make run` starts them, for what speaks HTTP (tests/instances.py).
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import django
import pytest

from tests.instances import Instance, start
from topics_project import embedded

_session = contextlib.ExitStack()


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Before pytest-django reads the settings: they need to know the servers."""
    data = Path(tempfile.mkdtemp(prefix="topics-tests-"))
    _session.callback(shutil.rmtree, data, ignore_errors=True)
    for name in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "TOPICS_API_KEYS", "TOPICS_INSECURE", "HOST", "PORT"):
        os.environ.pop(name, None)
    os.environ["TOPICS_DATA"] = str(data)
    os.environ["DJANGO_SETTINGS_MODULE"] = "topics_project.settings"
    _session.enter_context(embedded.environment())
    django.setup()  # test modules import models, before pytest-django looks for settings


def pytest_unconfigure() -> None:
    _session.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Instance]:
    """A whole running instance for everybody to share: use names of your own in it. No keys."""
    with start() as instance:
        yield instance


@pytest.fixture
def instances() -> Iterator[Callable[..., Instance]]:
    """`instances(TOPICS_API_KEYS="…")` starts one of your own, with those settings; it ends with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(start(**settings))
