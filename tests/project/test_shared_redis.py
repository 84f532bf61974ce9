"""A Redis that another application uses, too: each leaves the other's keys, queues and channels alone."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from tests.instances import ROOT, WHOLE, Instance, until
from tests.project.test_beat import launch
from tests.project.test_doctor import doctor, lines
from tests.project.test_two_hosts import joining
from tests.watch.wire import Api
from topics_project.operations.old_queues import OLD, drop_ours

pytestmark = pytest.mark.deep(55)


SHOP = """
import os

import redis
from celery import Celery

app = Celery("shop", broker=os.environ["SHOP_REDIS"])


@app.task
def sell(number):
    redis.Redis.from_url(os.environ["SHOP_REDIS"]).rpush("shop:sold", number)
"""
ASK = "import shop\nfor number in range(40): shop.sell.delay(number)\n"


@pytest.fixture
def server(instances: Callable[..., Instance]) -> Instance:
    return instances(**WHOLE)


@pytest.fixture
def client(server: Instance) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.servers.redis_url) as client:
        yield client


def test_every_key_and_channel_begins_with_the_prefix(server: Instance, client: redis.Redis) -> None:
    api, names = Api(server.port), set[str]()
    api.done("PUT", "/v0/routers/r", {"source": "a", "dest": "b"})
    prefix = server.redis_prefix

    def has_worked() -> bool:
        api.append("a", 1)
        names.update(name.decode() for name in (*client.keys(), *client.pubsub_channels()))
        return names >= {f"{prefix}topics", f"{prefix}moved"} and any(":advance:" in name for name in names)

    with api.stream(api.watch({"a": {}})):
        until(has_worked, "a task to wait in its queue, and a process to listen")
    assert [name for name in names if not name.startswith(prefix)] == []


def test_a_shop_and_topics_lose_none_of_their_tasks(server: Instance, client: redis.Redis, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    environment = {**os.environ, "SHOP_REDIS": server.servers.redis_url, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "--pool", "solo"]
    shop = launch(command, environment, tmp_path / "shop.log")
    try:
        api = Api(server.port)
        api.done("PUT", "/v0/routers/r", {"source": "a", "dest": "b"})
        assert launch([sys.executable, "-c", ASK], environment, tmp_path / "ask.log").wait() == 0
        for number in range(40):
            api.append("a", number)
        until(lambda: client.llen("shop:sold") == 40, "the shop to sell")
        until(lambda: api.done("GET", "/v0/topics/b")["head_seq"] == 40, "the router to forward")
    finally:
        shop.send_signal(signal.SIGKILL)
        shop.wait()
    assert "unregistered" not in (tmp_path / "shop.log").read_text()
    assert "unregistered" not in "".join(log.read_text() for log in (server.data / "logs").glob("*.log"))


def user_of(client: redis.Redis, servers: Instance, *rules: str) -> str:
    """Makes a user as docs/deploy.md prints it, with more rules. Returns the address with the user."""
    (printed,) = re.findall(r"ACL SETUSER topics on >PASSWORD (.*)", (ROOT / "docs" / "deploy.md").read_text())
    client.execute_command("ACL", "SETUSER", "topics", "on", ">secret", *printed.split(), *rules)
    parts = urlsplit(servers.servers.redis_url)
    return parts._replace(netloc=f"topics:secret@127.0.0.1:{parts.port}").geturl()


def test_a_user_with_few_rights_is_enough(instances: Callable[..., Instance]) -> None:
    first = instances()
    with redis.Redis.from_url(first.servers.redis_url) as client:
        url = user_of(client, first)
        second = instances(**{**WHOLE, **joining(first), "REDIS_URL": url})
        api = Api(second.port)
        api.done("PUT", "/v0/routers/r", {"source": "a", "dest": "b"})
        with api.stream(api.watch({"b": {"from_seq": 0}})) as stream:
            api.append("a", 1)
            stream.until_seq("b", 1)
        findings = {**joining(first), "REDIS_URL": url}
        until(lambda: lines(second, **findings)["beat"].startswith("ok runs"), "beat to give a heartbeat")
        assert lines(second, **findings)["Redis"].startswith("ok ")
        # It looks for messages of an earlier version. Before Redis 7, a user also needs more rights for CLIENT SETINFO, which the
        # library sends and can do without.
        assert {entry["object"] for entry in client.acl_log()} <= {*OLD, "client"}
        user_of(client, first, "-info")
        assert "may not run INFO" in lines(second, **findings)["Redis"]
        user_of(client, first, "resetkeys")
        assert "Redis: refuses writes to its user" in doctor(second, **findings).stdout


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        (["REPLICAOF 127.0.0.1 1", "CONFIG SET replica-serve-stale-data yes"], "is a replica, which takes no writes"),
        (
            ["CONFIG SET maxmemory-policy noeviction", "CONFIG SET maxmemory 1"],
            "is full (maxmemory), and takes no writes",
        ),
        (["CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory 1gb"], "which removes waiting tasks"),
    ],
)
def test_a_redis_that_answers_and_is_no_use_is_told(
    server: Instance, client: redis.Redis, commands: list[str], said: str
) -> None:
    for command in commands:
        client.execute_command(*command.split())
    assert said in doctor(server).stdout
    if "no writes" in said:
        api = Api(server.port)
        until(lambda: "redis" in api.done("GET", "/v0/ready").get("degraded", ()), "the server to notice")


def test_messages_of_an_earlier_version_are_removed_and_others_stay(client: redis.Redis) -> None:
    def message(task: str) -> str:
        return json.dumps({"headers": {"task": task}, "body": ""})

    # No worker has this task: one that becomes ready meanwhile removes those that it has.
    client.rpush("celery", message("old.sweep"), message("shop.sell"), "no json", message("old.sweep"), "[]")
    client.set("push", "not a list")
    assert drop_ours(client, {"old.sweep"}) == 2
    assert client.lrange("celery", 0, -1) == [message("shop.sell").encode(), b"no json", b"[]"]
    assert client.get("push") == b"not a list"
