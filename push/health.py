"""Whether PostgreSQL and Redis are there, for publishers and for /pulse."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import redis
from django.conf import settings

from base.errors import NotReady
from push import publish
from store.script import Pause, Script, Shared, Statement


@cache
def client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)


def ping() -> bool:
    try:
        return bool(client().ping())
    except (redis.RedisError, OSError):
        return False


def look_at_redis() -> None:
    """Once a second in each web process: a publisher hears 503 while Redis is away, rather than that all is well."""
    publish.redis_away = not ping()


class Ping(Shared):
    """Whether Redis answers."""

    def alone(self) -> Script[bool]:
        yield from ()
        return ping()

    async def together(self) -> bool:
        return await asyncio.to_thread(ping)


class Rest(Pause):
    """A second in which nothing is done: how /pulse/scaling says that there is much to do."""

    async def over(self) -> Any:
        await asyncio.sleep(1)


def check() -> Script[None]:
    """Raises NotReady."""
    yield Statement("SELECT 1")
    if not (yield Ping()):
        raise NotReady("Redis is not reachable")


def cpu_ms() -> dict[str, float]:
    """The CPU that Redis has used since its start, in ms; nothing where it is away."""
    try:
        info = client().info("cpu")
    except (redis.RedisError, OSError):
        return {}
    return {f"used_cpu_{kind}": float(info[f"used_cpu_{kind}"]) * 1000 for kind in ("user", "sys")}
