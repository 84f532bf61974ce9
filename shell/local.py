"""The calls of /v0 without a web server: runs the endpoints' scripts on the database, in this process."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlencode

from django.db import ProgrammingError

from base.refusal import Refusal
from groups.api import endpoints as groups_endpoints
from push.api.webhooks import endpoints as webhooks_endpoints
from queues.api.urls import endpoints as queues_endpoints
from routers.api.urls import endpoints as routers_endpoints
from shell import local_stream
from shell.follower import Follower
from shell.server import Query, shown
from store.database import translating
from store.script import run
from topics.api.urls import endpoints as topics_endpoints
from wire.access.keys import OPEN
from wire.endpoint import Call
from wire.routes import Routes

HEADERS = {b"content-type": b"application/json"}


class Local:
    """A Server (server.py) on the local database. Needs no key, because the user can read the secrets in TOPICS_DATA, or
    DATABASE_URL."""

    def __init__(self) -> None:
        self.routes = Routes(
            (*topics_endpoints, *groups_endpoints, *queues_endpoints, *routers_endpoints, *webhooks_endpoints)
        )

    def send(
        self, method: str, path: str, query: Query | None = None, body: bytes | None = None, again: bool = False
    ) -> bytes:
        found = self.routes.find(path)
        assert found is not None, f"no endpoint at {path}"
        call: Call[Any, Any] = Call(OPEN, HEADERS, urlencode(shown(query)).encode(), body or b"", "")
        try:
            with translating():
                return run(found.endpoints[method].script(call, [unquote(each) for each in found.arguments])).body
        except ProgrammingError as error:
            raise Refusal(
                f"the database is not set up, run `make run` or `manage.py migrate` first: {error}"
            ) from error

    def follow(self, follower: Follower) -> None:
        local_stream.follow(follower)
