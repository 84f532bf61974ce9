"""Appends that wake the worker, and appends that do not."""

from collections.abc import Iterator

import redis

from routers.tasks import IDLE_MS
from tests.api.clients import ApiClient
from tests.instances import Instance, until
from tests.routers.conftest import route


def head(server: Instance, topic: str) -> int:
    """A topic's head as it lies there: nobody reads the topic, so nobody but the worker forwards."""
    with server.connect() as connection:
        found = connection.execute(
            "SELECT head_seq FROM topics_topichead h JOIN topics_topic t ON t.id = h.topic_id WHERE t.name = %s",
            [topic],
        ).fetchone()
    return int(found[0]) if found else -1


def topic_id(server: Instance, topic: str) -> int:
    with server.connect() as connection:
        found = connection.execute("SELECT id FROM topics_topic WHERE name = %s", [topic]).fetchone()
    assert found is not None
    return int(found[0])


def test_a_source_whose_routers_all_stand_still_takes_no_work(
    live: ApiClient, server: Instance, names: Iterator[str]
) -> None:
    source, dest, router = next(names), next(names), next(names)
    route(live, source, dest, router, paused=True)
    asked = f"{server.redis_prefix}advance:{topic_id(server, source)}"
    with redis.Redis.from_url(server.servers.redis_url) as client:
        live.append(source, 1)
        until(lambda: 0 < client.pttl(asked) <= IDLE_MS, "the worker to have looked, and nobody to be asked again")
        live.append(source, 2)
        assert head(server, dest) == 0
        live.put(f"/v0/routers/{router}", {"source": source, "dest": dest, "paused": False})
        until(lambda: head(server, dest) == 2, "what was appended meanwhile")
        until(lambda: not client.exists(asked), "the next append to be heard of at once")
        live.append(source, 3)
        until(lambda: head(server, dest) == 3, "the last record")
