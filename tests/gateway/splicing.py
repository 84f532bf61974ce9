"""A topic spliced out of two servers, and what clients should see of it."""

from typing import Any

from tests.gateway.running import cluster, route


def splice(first: int, second: int, topics: dict[str, Any], **config: Any) -> dict[str, Any]:
    """A SpliceRouter over two servers, `old` and `new`. What is not spliced goes to `new`."""
    return {
        "clusterDefinitions": [cluster("old", first), cluster("new", second)],
        "routerDefinitions": [
            {
                "name": "spliced",
                "type": "SpliceRouter",
                "config": {"topics": topics, "default": "new", **config},
                "routes": [route("old", 0, cluster="old"), route("new", 1, cluster="new")],
            }
        ],
        "virtualClusters": [
            {"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"router": "spliced"}},
        ],
    }
