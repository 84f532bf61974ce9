"""While PostgreSQL or Redis is away or full, each process writes a line at the beginning, one a minute, and one at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.instances import WHOLE, Instance, until
from tests.own_postgres import Own, own_postgres
from tests.project.test_doctor import lines
from tests.redis_servers import OwnRedis, own_redis
from tests.watch.wire import Api

pytestmark = pytest.mark.deep(55)


MOST = 8  # lines of a log, in which several processes write
SECONDS = 8.0  # in which a process that wrote a line each second would write more


class Site:
    """An instance on servers of its own."""

    def __init__(self, instance: Instance, postgresql: Own, redis: OwnRedis) -> None:
        self.instance, self.postgresql, self.redis = instance, postgresql, redis
        self.api = Api(instance.port)

    def logs(self) -> dict[str, str]:
        return {log.stem: log.read_text() for log in (self.instance.data / "logs").glob("*.log")}

    def said(self, before: dict[str, str]) -> dict[str, list[str]]:
        """The new lines of each process, without the reports of the bus, which are no log."""
        found = {name: text[len(before.get(name, "")) :].splitlines() for name, text in self.logs().items()}
        return {name: [line for line in lines if "gauge " not in line] for name, lines in found.items()}

    def outage(self, name: str, begin: Callable[[], object], end: Callable[[], object]) -> None:
        """Everything is as before afterwards, and the logs have few lines."""
        before = self.logs()

        def all_say(text: str) -> bool:
            return all(any(text in line for line in lines) for lines in self.said(before).values())

        begin()
        until(lambda: self.work() and all_say(f"{name} does not work: "), f"the beginning in each of {self.logs()}")
        time.sleep(SECONDS)
        end()
        until(lambda: self.work() and all_say(f"{name} works again, after "), f"the end in each of {self.logs()}")
        for process, said in self.said(before).items():
            assert len(said) <= MOST, (process, said)
            assert not any("Traceback" in line for line in said), (process, said)
        count = self.api.done("POST", "/v0/topics/a", {"records": [{"data": 1}]})["last_seq"]
        until(lambda: self.api.done("GET", "/v0/topics/b")["head_seq"] >= count, "the router")

    def work(self) -> bool:
        """Calls as clients do, whatever the answer is."""
        self.api.call("POST", "/v0/topics/a", {"records": [{"data": 1}]})
        return True


@pytest.fixture
def site(instances: Callable[..., Instance], tmp_path: Path) -> Iterator[Site]:
    with own_postgres() as postgresql, own_redis(tmp_path) as redis:
        postgresql.serve("data")
        there = {"DATABASE_URL": postgresql.url, "REDIS_URL": redis.url, "SECRET_KEY": "0123456789abcdef" * 4}
        yield Site(instances(**WHOLE, **there), postgresql, redis)


def test_an_outage_is_some_lines_in_each_log(site: Site) -> None:
    site.api.done("PUT", "/v0/routers/r", {"source": "a", "dest": "b"})
    site.work()
    for process in ("worker", "push", "beat"):
        until(lambda process=process: lines(site.instance)[process] == "ok runs.", f"{process} to run")
    site.outage("Redis", site.redis.stop, site.redis.start)

    def fill() -> None:
        site.redis.client.config_set("maxmemory-policy", "noeviction")
        site.redis.client.config_set("maxmemory", "1")

    site.outage("Redis", fill, lambda: site.redis.client.config_set("maxmemory", "0"))
    site.outage("PostgreSQL", site.postgresql.stop, lambda: site.postgresql.serve("data"))
