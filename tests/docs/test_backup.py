"""docs/guides/backup.md as it is printed: a PostgreSQL of one's own is backed up while it serves, and restored to a point in time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.docs.printed import commands, snippets
from tests.docs.process import environment, web
from tests.instances import ROOT, Instance, until
from tests.own_postgres import Own, own_postgres
from tests.watch.wire import Api

pytestmark = pytest.mark.deep(58)


PAGE = "docs/guides/backup.md"
BACKUP, RESTORE, DUMP, UNDUMP, FULL, *RECOVER = commands(PAGE)  # tests/door/test_own_schema.py dumps
MOVE = commands("docs/guides/upgrading.md")


@pytest.fixture
def own() -> Iterator[Own]:
    """A PostgreSQL with the page's settings, in a folder that stands for the page's /srv."""
    (configuration,) = snippets(PAGE, "ini")
    with own_postgres(configuration) as made:
        yield made


def printed(commands: list[str], folder: Path, data: Path, **settings: str) -> None:
    """Runs commands of `topics` as printed. Each must succeed."""
    topics = f'topics() {{ "{sys.executable}" "{ROOT / "manage.py"}" topics "$@"; }}'
    script = "\n".join([topics, *commands])
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env=environment(data, **settings),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_from_one_machine_to_servers_of_ones_own(own: Own, instances: Any, server: Instance, tmp_path: Path) -> None:
    old = instances()
    Api(old.port).append("orders", "one", "two")
    assert old.stop() == 0
    redis = server.servers.redis_url.rpartition("/")[0] + "/9"
    with own.running("data") as connection:
        connection.execute("CREATE DATABASE new")
        new = own.url.replace("/postgres", "/new")
        printed(MOVE, tmp_path, old.data, NEW_DATABASE_URL=new, NEW_REDIS_URL=redis)
        with psycopg.connect(new) as other:
            found = other.execute("SELECT topic, data #>> '{}' FROM topic_log ORDER BY seq").fetchall()
    assert found == [("orders", "one"), ("orders", "two")]


def test_back_to_a_point_in_time(own: Own, server: Instance, tmp_path: Path) -> None:
    settings = {
        "DATABASE_URL": own.url,
        "REDIS_URL": server.servers.redis_url.rpartition("/")[0] + "/9",  # a database of its own in that server
        "SECRET_KEY": "0123456789abcdef" * 4,
    }
    with own.running("data") as connection:
        migrate = [sys.executable, str(ROOT / "manage.py"), "migrate"]
        subprocess.run(migrate, env=environment(tmp_path, **settings), check=True, capture_output=True)
        with web(tmp_path, **settings) as port:
            api = Api(port)
            api.done("PUT", "/v0/topics/orders", {"durability": "fsync"})
            api.append("orders", "one", "two")
            own.shell(FULL)
            api.append("orders", "three")
            point = connection.execute("SELECT clock_timestamp()::text").fetchone()[0]
            undone = api.append("orders", *range(2000))
        connection.execute("CREATE DATABASE copy")
        copy = own.url.replace("/postgres", "/copy")
        printed([BACKUP], tmp_path, tmp_path, **settings)
        printed([RESTORE], tmp_path, tmp_path, **{**settings, "DATABASE_URL": copy})
        with psycopg.connect(copy) as other:
            assert other.execute("SELECT count(*) FROM topic_log").fetchone() == (2003,)
        segment = connection.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()[0]
        until((own.folder / "wal" / segment).exists, "the WAL to be archived")
    own.shell("\n".join(RECOVER), POINT_IN_TIME=point)
    with own.running("backup"), web(tmp_path, **settings) as port:
        api = Api(port)
        read = api.done("POST", "/v0/topics/orders/diff", {"from_seq": 1})
        assert [record["data"] for record in read["records"]][:2] == ["two", "three"]
        first = api.append("orders", "four")
        assert first > 3
        on = api.done("POST", "/v0/topics/orders/diff", {"from_seq": 3})
        assert [record["data"] for record in on["records"]] == ["four"]
        assert on["next_from_seq"] == on["head_seq"] == first
        ahead = api.done("POST", "/v0/topics/orders/diff", {"from_seq": undone})
        assert ahead["tombstone"]["reason"] == "recreated"
