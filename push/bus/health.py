"""Checks whether PostgreSQL and Redis answer, for publishers and for /pulse."""

from __future__ import annotations

import asyncio
from typing import Any

import redis
from django.conf import settings

from base import redis_client
from base.errors import NotReady
from store.script import Pause, Script, Shared, Statement


def ping() -> bool:
    try:
        return bool(redis_client.shared(settings.REDIS_URL).ping())
    except (redis.RedisError, OSError):
        return False


class Health:
    """Redis as this web process knows it. While Redis does not answer, publishers get 503."""

    def __init__(self) -> None:
        self.redis_away = False

    def look_at_redis(self) -> None:
        """Checks Redis. Called once a second."""
        self.redis_away = not ping()


process = Health()


class Ping(Shared):
    """A request whose result says whether Redis answers."""

    def alone(self) -> Script[bool]:
        yield from ()
        return ping()

    async def together(self) -> bool:
        return await asyncio.to_thread(ping)


class Rest(Pause):
    """A pause of one second, by which /pulse/scaling signals many due deliveries."""

    async def over(self) -> Any:
        await asyncio.sleep(1)


def check() -> Script[None]:
    """Raises NotReady if PostgreSQL or Redis does not answer."""
    yield Statement("SELECT 1")
    if not (yield Ping()):
        raise NotReady("Redis is not reachable")


def cpu_ms() -> dict[str, float]:
    """Returns the CPU time (ms) that Redis has used since its start. Empty if Redis does not answer."""
    try:
        info = redis_client.shared(settings.REDIS_URL).info("cpu")
    except (redis.RedisError, OSError):
        return {}
    return {f"used_cpu_{kind}": float(info[f"used_cpu_{kind}"]) * 1000 for kind in ("user", "sys")}
