"""For tests of plugins (docs/gateway-plugins.md): a gateway with one router or filter, and servers that note their requests."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from gateway import plugins
from gateway.api import FilterFactory, Request, Response, RouterFactory
from gateway.configuration.keys import random_seal
from gateway.server import Gateway
from http1 import Request as Received
from http1 import Response as Sent
from http1 import Server as HttpServer

__all__ = ["Running", "Server", "filtering", "routing"]
TYPE = "Tested"  # of the plugin in the configuration


class Server:
    """A server behind a route. `requests`: what reached it. `answer` may be replaced; it answers with its own name first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Response] = lambda request: Response.json(200, {"server": name})
        self.http = HttpServer(self.handle)

    async def handle(self, received: Received) -> Sent:
        path, _, query = received.target.decode().partition("?")
        request = Request(received.method, path, query, received.headers, await received.body.read())
        if path != "/v0/ready":  # the gateway's own probes
            self.requests.append(request)
        answer = self.answer(request)
        return Sent(answer.status, answer.headers, await answer.read())


class Running:
    """A running gateway. `servers`: by route."""

    def __init__(self, port: int, servers: Mapping[str, Server]) -> None:
        self.port, self.servers = port, servers

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Response:
        """Sends a request as a client. `body`: a JSON value."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), dict(headers or {}))
            answer = connection.getresponse()
            found = [(name.lower().encode(), value.encode()) for name, value in answer.getheaders()]
            return Response(answer.status, found, answer.read())
        finally:
            connection.close()


def routing(factory: RouterFactory[Any, Any], config: Mapping[str, Any] | None = None, *, routes: Sequence[str]) -> Any:
    """`with routing(ByHourFactory(), {…}, routes=["day", "night"]) as gateway:` serves the router. Raises config.Faulty."""
    return running("router", factory, config or {}, routes)


def filtering(factory: FilterFactory[Any, Any], config: Mapping[str, Any] | None = None) -> Any:
    """`with filtering(StampFactory(), {…}) as gateway:` serves the filter before the server `one`. Raises config.Faulty."""
    return running("filter", factory, config or {}, ["one"])


@contextmanager
def running(kind: str, factory: Any, config: Mapping[str, Any], routes: Sequence[str]) -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, loop).result(30)

    servers = {name: Server(name) for name in routes}
    known = plugins.factories(kind)
    known[TYPE] = plugins.complete(factory, plugins.FACTORIES[kind])
    gateway: Gateway | None = None

    async def start(file: Path) -> tuple[Gateway, int]:
        ports = {name: await server.http.listen() for name, server in servers.items()}
        file.write_text(json.dumps(configuration(kind, factory, config, ports)))
        made = Gateway(file, random_seal())
        made.load()
        return made, await made.listen("127.0.0.1", 0)

    async def stop() -> None:
        if gateway is not None:
            await gateway.drain(0)
        for server in servers.values():
            await server.http.drain(0)

    try:
        with tempfile.TemporaryDirectory() as folder:
            gateway, port = wait(start(Path(folder) / "gateway.yaml"))
            yield Running(port, servers)
    finally:
        wait(stop())
        del known[TYPE]
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def configuration(kind: str, factory: Any, config: Mapping[str, Any], ports: Mapping[str, int]) -> dict[str, Any]:
    tested = {"name": "tested", "type": TYPE, "config": dict(config)}
    routes = [{"name": name, "id": number, "target": {"cluster": name}} for number, name in enumerate(ports)]
    site: dict[str, Any] = {"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"router": "tested"}}
    found: dict[str, Any] = {
        "clusterDefinitions": [
            {"name": name, "nodes": [{"id": 0, "url": f"http://127.0.0.1:{port}"}]} for name, port in ports.items()
        ],
        "routerDefinitions": [{**tested, "routes": routes}],
        "virtualClusters": [site],
    }
    if kind == "filter":
        found["filterDefinitions"] = [tested]
        found["routerDefinitions"] = [{"name": "tested", "type": "StaticRouter", "routes": routes}]
        (site if "virtual cluster" in factory.places else routes[0])["filters"] = ["tested"]
    return found
