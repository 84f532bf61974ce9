"""/gateway/graph: the configuration as it runs, with states and counters, and without addresses."""

from typing import Any

from tests.gateway.running import by_topic, cluster, route
from tests.instances import free_port, until


def test_requests_count_for_each_route_of_their_way(two_servers, gateways, name: str) -> None:
    """A StaticRouter leads to a TopicRouter. Nothing listens at the third server."""
    first, second = (server.port for server in two_servers)
    configuration = by_topic(second, first, topics={f"{name}-away": "away"})
    configuration["clusterDefinitions"].append(cluster("away", free_port()))
    inner = configuration["routerDefinitions"][0]
    inner["routes"].append(route("away", 2, cluster="away"))
    outer = {"name": "outer", "type": "StaticRouter", "routes": [route("all", 0, router="by-topic")]}
    configuration["routerDefinitions"].append(outer)
    configuration["virtualClusters"][0]["target"] = {"router": "outer"}
    gateway = gateways(configuration)
    client = gateway.client()
    for _ in range(3):
        assert client.append(name, 1).status in (200, 201)
    assert client.append(f"eu.{name}", 1).status == 201
    assert client.append(f"{name}-away", 1).status == 502

    told = client.get("/gateway/graph").json
    (site,) = told["virtual_clusters"]
    counts = {"all": (5, 1), "eu": (1, 0), "us": (3, 0), "away": (1, 1)}
    assert (site["requests"], site["errors"]) == (5, 1)
    assert site["target"]["type"] == "StaticRouter"
    (outermost,) = site["target"]["routes"]
    assert counts == {
        each["name"]: (each["requests"], each["errors"]) for each in (outermost, *outermost["target"]["routes"])
    }
    assert [each["target"]["cluster"] for each in outermost["target"]["routes"]] == ["eu", "us", "away"]
    assert told["configuration"] == client.get("/gateway/health").json["configuration"]
    assert client.metric("topics_gateway_requests_total", route="all/us", operation="append") > 0
    until(lambda: nodes(client.get("/gateway/graph").json)["away"]["breaker"] == "open", "the breaker to open")
    assert nodes(told)["eu"] == {"id": 0, "state": "up", "breaker": "closed"}
    text = client.get("/gateway/graph").body.decode()
    assert [what for what in ("127.0.0.1", str(first), str(second), name) if what in text] == []


def test_the_counters_are_those_of_all_processes(two_servers, gateways, name: str) -> None:
    gateway = gateways(by_topic(two_servers[0].port, two_servers[1].port), "--processes", "2")
    for _ in range(20):
        assert gateway.client().append(name, 1).status in (200, 201)

    def told() -> bool:
        graph = gateway.client().get("/gateway/graph").json
        return (graph["processes"], graph["virtual_clusters"][0]["requests"]) == (2, 20)

    until(told, "the requests of both processes")


def nodes(told: dict[str, Any]) -> dict[str, Any]:
    """The first node of each cluster."""
    return {each["name"]: each["nodes"][0] for each in told["clusters"]}
