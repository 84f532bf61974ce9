"""The gateway of a run: two processes, and two nodes of one cluster. One way passes bytes unread, the other reads each request.

Clients that name it `127.0.0.1` take the StaticRouter, clients that name it `localhost` the TopicRouter.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tests.crash.harness.processes import Process, children_of, send
from tests.gateway.running import Running, cluster, route

AS_BYTES, AS_REQUESTS = "127.0.0.1", "localhost"
# Three tries of a request end before a client gives up.
TIMES = {"connectMs": 1000, "answerMs": 5000}
# A client sends a request again after these refusals, as after 503: the gateway says that the server did not answer.
AWAY = ("node_unreachable", "timeout")


def configuration(port: int) -> dict[str, Any]:
    one = cluster("one", port, timeouts=TIMES)
    one["nodes"].append({"id": 1, "url": f"http://localhost:{port}"})
    return {
        "clusterDefinitions": [one],
        "routerDefinitions": [
            {"name": "as-it-is", "type": "StaticRouter", "routes": [route("one", 0, cluster="one")]},
            {
                "name": "by-topic",
                "type": "TopicRouter",
                "config": {"default": "one"},
                "routes": [route("one", 0, cluster="one")],
            },
        ],
        "virtualClusters": [
            {"name": "bytes", "gateways": [{"host": AS_BYTES}], "target": {"router": "as-it-is"}},
            {"name": "requests", "gateways": [{"host": AS_REQUESTS}], "target": {"router": "by-topic"}},
        ],
    }


class Gateway(Running):
    """The run starts the first process again when it ends (`run_again`). The first process does so for the others."""

    @classmethod
    def of(cls, folder: Path, port: int) -> Gateway:
        folder.mkdir()
        settings = {"GATEWAY_KEY": "of-the-crash-harness" * 2, "TMPDIR": str(folder)}
        return cls(folder, configuration(port), settings, ("--processes", "2"))

    @property
    def first(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def serving(self) -> list[Process]:
        """The processes that serve. What a killed first process left behind still serves, until it has ended by itself."""
        return children_of(self.first)

    def run_again(self) -> None:
        if self.ended():
            self.start(ready=False)

    def kill_all(self) -> None:
        if self.process is not None:
            serving = self.serving
            self.kill()
            send(signal.SIGKILL, serving)
