"""One Spark for all tests of a process, on the tests' database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.programs import Start


@pytest.fixture(scope="session")
def small() -> dict[str, str]:
    """The environment of programs that start a Spark."""
    from tests.pipeline.light import environment

    return environment()


@pytest.fixture(scope="package")
def spark(django_db_setup: None, small: dict[str, str]) -> Iterator[SparkSession]:
    """Ends before the tests' database goes: its workers have connections to it."""
    from django.conf import settings

    from pipeline.session import Setup, session

    with pytest.MonkeyPatch.context() as patch:
        for name, value in small.items():
            patch.setenv(name, value)
        setup = Setup(driver=settings.TOPICS_JDBC_DRIVER)
        made = session(setup, spark__master="local[2]", spark__driver__memory="700m")
    yield made
    made.stop()


@pytest.fixture
def dsn(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty database that Spark's connections see, and DATABASE_URL says so."""
    from tests.pipeline.filling import FEW, database_url
    from topics.cache import forget_all

    forget_all()
    monkeypatch.setenv("DATABASE_URL", database_url())
    monkeypatch.setattr("pipeline.jobs.latest.TASKS", FEW)
    yield database_url()
    forget_all()


@pytest.fixture
def start(dsn: str, small: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Starts a Python program on this test's database."""
    from tests.pipeline.programs import programs

    given = {**small, "DATABASE_URL": dsn, "TOPICS_SPARK_MEMORY": "600m"}
    with programs(given, tmp_path / "output") as run:
        yield run
