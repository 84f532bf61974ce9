"""A standby behind DATABASE_URL: every call is 503 with the reason, and work goes on by itself when it is promoted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.clients import HttpClient, Reply
from tests.docs.process import environment, web
from tests.instances import ROOT, Instance, until
from tests.own_postgres import Own, own_postgres

COPY = 'pg_basebackup -D /srv/standby -R -X stream -c fast -d "$DATABASE_URL"'
SAID = "PostgreSQL is read only, for example a standby: let DATABASE_URL lead to the primary"


@pytest.fixture
def own() -> Iterator[Own]:
    with own_postgres() as made:
        yield made


def test_a_standby_is_not_ready_until_its_promotion(own: Own, server: Instance, tmp_path: Path) -> None:
    """The standby listens where its primary did, as behind an address that moves."""
    settings = {
        "DATABASE_URL": own.url,
        "REDIS_URL": server.servers.redis_url.rpartition("/")[0] + "/9",  # a database of its own in that server
        "SECRET_KEY": "0123456789abcdef" * 4,
    }

    def manage(command: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, str(ROOT / "manage.py"), command]
        return subprocess.run(argv, env=environment(tmp_path, **settings), capture_output=True, text=True, check=False)

    def refused(ask: Callable[[], Reply]) -> Reply | None:
        reply = ask()
        return reply if reply.status == 503 and reply.json["error"]["message"] == SAID else None

    own.serve("data")
    prepared = manage("prepare")
    assert prepared.returncode == 0, prepared.stderr
    with web(tmp_path, **settings) as port:
        live = HttpClient(port)
        (first,) = live.append("orders", 1).json["seqs"]
        own.shell(COPY)
        own.serve("standby")
        for call in (
            lambda: live.get("/v0/ready"),
            lambda: live.append("orders", 2),
            lambda: live.diff("orders", from_seq=0),
        ):
            reply = until(lambda call=call: refused(call), "the refusal of a standby")
            assert (reply.code, reply.headers["retry-after"]) == ("not_ready", "1")
        told = manage("doctor")
        assert (told.returncode, told.stderr) == (1, "CommandError: 1 fault\n")
        assert "fault    replication: DATABASE_URL is a standby. Set DATABASE_URL to the primary." in told.stdout
        told = manage("prepare")
        assert (told.returncode, told.stderr) == (1, f"topics: {SAID}.\n")
        own.shell("pg_ctl -D /srv/standby -w promote")
        done = until(lambda: (reply := live.append("orders", 3)).status == 200 and reply, "the promotion")
        assert done.json["seqs"][0] > first
        for seen, data in ((0, 1), (first, 3)):  # a page ends at the seqs that the promotion left out
            assert [each["data"] for each in live.diff("orders", from_seq=seen).json["records"]] == [data]
