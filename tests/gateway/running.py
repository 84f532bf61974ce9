"""A gateway as `topics gateway serve` starts it: its own process, on a port of its own."""

import json
import os
import signal
import socket
import sys
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.deadlines import DEADLINE
from tests.instances import ROOT, free_port, until
from tests.preloaded import begin
from topics_project.forks import Fork


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


class Client:
    """One kept connection."""

    def __init__(self, port: int, host: str = "127.0.0.1", prefix: str = "") -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
        self.host, self.prefix = host, prefix

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        named = {"host": self.host, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            named.setdefault("content-type", "application/json")
        self.connection.request(method, self.prefix + path, body, named)
        answer = self.connection.getresponse()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def get(self, path: str, **headers: str) -> Reply:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        return self.call("POST", path, body, **headers)

    def append(self, topic: str, *data: Any, **more: Any) -> Reply:
        return self.post(f"/v0/topics/{topic}", {"records": [{"data": each} for each in data], **more})

    def metric(self, name: str, **labels: str) -> float | None:
        """The sum of the samples with these labels of a metric of the gateway, or None if there are none."""
        page = self.get("/gateway/metrics").body.decode()
        samples = [each for family in text_string_to_metric_families(page) for each in family.samples]
        values = [each.value for each in samples if each.name == name and labels.items() <= each.labels.items()]
        return sum(values) if values else None

    def close(self) -> None:
        self.connection.close()


@dataclass
class Running:
    """A gateway process and its file. `write` changes the file."""

    folder: Path
    configuration: dict[str, Any] = field(repr=False)
    settings: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    process: Fork | None = None
    clients: list[Client] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / "gateway.yaml"

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text() if (self.folder / "output").exists() else ""

    def write(self, configuration: dict[str, Any]) -> None:
        self.configuration = configuration
        new = self.folder / "new.yaml"
        new.write_text(yaml.safe_dump(configuration, sort_keys=False))
        new.replace(self.file)

    def start(self, *, ready: bool = True) -> "Running":
        self.write(self.configuration)
        environment = {**os.environ, "HOST": "127.0.0.1", "PORT": str(self.port), **self.settings}
        command = [sys.executable, str(ROOT / "manage.py"), "gateway", "serve", str(self.file), *self.options]
        self.process = begin(command, environment, self.folder, self.folder / "output")
        if ready:
            until(lambda: self.health() in ("ready", "degraded") or self.ended(), "the gateway to be ready")
            assert not self.ended(), self.output
        return self

    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def health(self) -> str:
        client = Client(self.port)
        try:
            return str(client.get("/gateway/health").json["status"])
        except OSError:
            return "away"
        finally:
            client.close()

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM. Returns the exit code."""
        self.signal(signal.SIGTERM)
        assert self.process is not None
        return self.process.wait(DEADLINE)

    def kill(self) -> None:
        for client in self.clients:
            client.close()
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def client(self, host: str = "127.0.0.1", prefix: str = "") -> Client:
        """A connection that ends with the gateway."""
        self.clients.append(Client(self.port, host, prefix))
        return self.clients[-1]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE)


def cluster(name: str, *ports: int, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "nodes": [{"id": number, "url": f"http://127.0.0.1:{port}"} for number, port in enumerate(ports)],
        **more,
    }


def route(name: str, number: int, *filters: str, **target: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "id": number, "target": target}
    return {**found, "filters": list(filters)} if filters else found


def by_topic(eu: int, us: int, **config: Any) -> dict[str, Any]:
    """A TopicRouter over two servers: topics that begin with `eu.`, and all others."""
    return {
        "clusterDefinitions": [cluster("eu", eu), cluster("us", us)],
        "routerDefinitions": [
            {
                "name": "by-topic",
                "type": "TopicRouter",
                "config": {"prefixes": {"eu.": "eu"}, "default": "us", **config},
                "routes": [route("eu", 0, cluster="eu"), route("us", 1, cluster="us")],
            }
        ],
        "virtualClusters": [
            {
                "name": "all",
                "gateways": [{"host": "127.0.0.1"}, {"prefix": "/vc/all"}],
                "target": {"router": "by-topic"},
            }
        ],
    }


def static(*ports: int, **more: Any) -> dict[str, Any]:
    return {
        "clusterDefinitions": [cluster("one", *ports, **more)],
        "routerDefinitions": [{"name": "as-it-is", "type": "StaticRouter", "routes": [route("one", 0, cluster="one")]}],
        "virtualClusters": [
            {"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"router": "as-it-is"}},
        ],
    }


def union(eu: int, us: int) -> dict[str, Any]:
    """A UnionRouter over two servers: `eu.` and `us.` before the names of their topics."""
    return {
        "clusterDefinitions": [cluster("eu", eu), cluster("us", us)],
        "routerDefinitions": [
            {
                "name": "by-region",
                "type": "UnionRouter",
                "routes": [route("eu", 0, cluster="eu"), route("us", 1, cluster="us")],
            }
        ],
        "virtualClusters": [
            {"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"router": "by-region"}},
        ],
    }
