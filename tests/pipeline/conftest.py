"""One Spark for all tests of a process, on the tests' database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "700m",
    # Queries of a few rows: to compile them would take longer than to run them. And a sixth of the CPU time of a start is the
    # check of 15,000 classes, which come from a wheel.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.pollingDelay": "100ms",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same for programs that are started: the environment by which Spark's own defaults are those."""
    folder = tmp_path_factory.mktemp("spark-conf")
    ours = {name: value for name, value in SMALL.items() if "master" not in name and "driver" not in name}
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in ours.items()))
    return {"SPARK_CONF_DIR": str(folder), "JAVA_TOOL_OPTIONS": SMALL["spark.driver.extraJavaOptions"]}


@pytest.fixture(scope="package")
def spark(django_db_setup: None) -> Iterator[SparkSession]:
    """Ends before the tests' database goes: its workers have connections to it."""
    from django.conf import settings

    from pipeline.session import Setup, session

    made = session(
        Setup(driver=settings.TOPICS_JDBC_DRIVER), **{name.replace(".", "__"): value for name, value in SMALL.items()}
    )
    yield made
    made.stop()


@pytest.fixture
def dsn(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty database that Spark's connections see, and DATABASE_URL says so."""
    from tests.pipeline.filling import database_url
    from topics.cache import forget_all

    forget_all()
    monkeypatch.setenv("DATABASE_URL", database_url())
    yield database_url()
    forget_all()
