"""A connection has a session at each virtual cluster that it uses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.gateway.running import Running, cluster
from tests.instances import Instance


@pytest.mark.parametrize("name", ["certificate", "id", "sessions", "spare"])
def test_a_virtual_cluster_can_have_any_name(
    two_servers: tuple[Instance, Instance], gateways: Callable[..., Running], name: str
) -> None:
    """Also one that the state of a connection has for something else. The connection is one in all virtual clusters."""
    limit = {"requestsPerSecond": 0.0001, "burst": 2, "by": "connection"}
    configuration = {
        "clusterDefinitions": [cluster("one", two_servers[0].port)],
        "filterDefinitions": [{"name": "limit", "type": "RateLimit", "config": limit}],
        "virtualClusters": [
            {"name": name, "gateways": [{"host": "127.0.0.1"}], "filters": ["limit"], "target": {"cluster": "one"}},
            {"name": "other", "gateways": [{"host": "localhost"}], "target": {"cluster": "one"}},
        ],
    }
    gateway = gateways(configuration)
    client = gateway.client()
    assert client.get("/v0/topics").status == 200
    assert client.get("/v0/topics", host="localhost").status == 200
    assert [client.get("/v0/topics").status for _ in range(2)] == [200, 429]
    assert gateway.client().get("/v0/topics").status == 200
