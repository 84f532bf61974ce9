"""The promises of gateway/api.py, with a router and a filter from another wheel."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import DEADLINE
from tests.gateway.running import Client, Running, by_topic, cluster, route
from tests.gateway.streams import Stream
from tests.instances import ROOT, until
from tests.preloaded import run

WHEEL = ROOT / "tests" / "gateway" / "wheel"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugins, installed from their wheel."""
    folder = tmp_path_factory.mktemp("plugins")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(build, cwd=WHEEL, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        str(folder / "site"),
    ]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    return folder / "site"


def contract(one: int, two: int) -> dict[str, Any]:
    """outer (ContractRouter) -> one; outer -> inner (ContractRouter) -> two. Trails on each way."""
    filters = [{"name": name, "type": "Trail", "config": {"name": name, "asks": name == "A"}} for name in "ABCD"]
    inner = [route("two", 0, cluster="two")]
    outer = [route("one", 0, "C", "D", cluster="one"), route("inner", 1, "C", router="inner")]
    return {
        "clusterDefinitions": [cluster("one", one), cluster("two", two)],
        "filterDefinitions": filters,
        "routerDefinitions": [
            {"name": "outer", "type": "ContractRouter", "config": {"firstRoute": "one"}, "routes": outer},
            {
                "name": "to-inner",
                "type": "ContractRouter",
                "config": {"firstRoute": "inner"},
                "routes": [route("inner", 0, router="inner")],
            },
            {"name": "inner", "type": "ContractRouter", "config": {"firstRoute": "two"}, "routes": inner},
        ],
        "virtualClusters": [
            {"name": "all", "gateways": [{"host": "127.0.0.1"}], "filters": ["A", "B"], "target": {"router": "outer"}},
            {
                "name": "nested",
                "gateways": [{"host": "nested"}, {"prefix": "/vc/nested"}],
                "target": {"router": "to-inner"},
            },
        ],
    }


@pytest.fixture
def gateway(two_servers, gateways, installed: Path) -> Running:
    ports = [server.port for server in two_servers]
    return gateways(contract(*ports), PYTHONPATH=str(installed))


def test_a_router_of_a_wheel_is_told_what_is_asked_and_by_whom(gateway, name: str) -> None:
    client, other = gateway.client(), gateway.client()
    told = [client.get(f"/v0/topics/{name}", x_do="tell").json for _ in range(2)]
    assert told[0] == {
        "operation": "get_topic",
        "topic": name,
        "session": told[0]["session"],
        "subject": None,
        "seen": 2,  # one of them the filter A's own
        "addressed": False,
        "equal": True,
        "sealed": [1, 2],
    }
    assert told[1] == {**told[0], "seen": 4}, "one instance a connection"
    assert other.get("/v0/health", x_do="tell").json["session"] != told[0]["session"]
    assert client.get("/node/0/v0/health", x_do="tell").json["addressed"] is True


def test_filters_see_requests_in_their_order_and_answers_in_the_reverse(gateway) -> None:
    client = gateway.client()
    assert client.get("/v0/health").headers["x-back"] == "DCBA"
    stopped = client.get("/v0/health", x_stop="B")
    assert (stopped.body, stopped.headers["x-trail"], stopped.headers["x-back"]) == (b"stopped", "AB", "A")
    stopped = client.get("/v0/health", x_stop="D")
    assert (stopped.headers["x-trail"], stopped.headers["x-back"]) == ("ABCD", "CBA")


def test_an_exception_is_502_and_its_text_stays_in_the_log(gateway, name: str) -> None:
    client = gateway.client()
    refused = client.append(name, 1, x_do="ignored").json  # a field of the body, and no header
    assert refused["error"]["code"] == "invalid_request"
    failed = client.post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, x_do="raise")
    assert (failed.status, failed.code) == (502, "router_failed")
    assert failed.json["error"]["detail"] == {
        "router": "outer",
        "route": "one",
        "maybe_written": False,
    }  # A's own request
    failed = client.post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, x_do="raise after a write")
    assert failed.json["error"]["detail"] == {"router": "outer", "route": "one", "maybe_written": True}
    failed = client.get("/v0/health", x_do="refuse")
    assert (failed.status, b"secret" in failed.body) == (502, False)
    assert "a secret of the router" in gateway.output
    assert client.get("/v0/health").status == 200


def test_answers_leave_in_the_order_of_the_requests(gateway) -> None:
    slow = b"GET /v0/health HTTP/1.1\r\nhost: 127.0.0.1\r\nx-do: slow\r\n\r\n"
    fast = b"GET /v0/topics/a HTTP/1.1\r\nhost: 127.0.0.1\r\nx-do: tell\r\n\r\n"
    with gateway.connect() as opened:
        opened.sendall(slow + fast * 3)
        got = b""
        while got.count(b"HTTP/1.1 200") < 4 or not got.endswith(b"}"):
            got += opened.recv(65536)
    answers = got.split(b"HTTP/1.1 ")[1:]
    assert [b'"uptime_ms"' in each for each in answers] == [True, False, False, False]


def ended(gateway: Running, request: bytes) -> bytes:
    with gateway.connect() as opened:
        opened.sendall(request)
        got = b""
        while part := opened.recv(65536):
            got += part
        return got


def test_a_router_may_close_the_connection_and_a_nested_one_may_not(gateway) -> None:
    closing = b"GET /v0/health HTTP/1.1\r\nhost: 127.0.0.1\r\nx-do: close\r\n\r\n"
    assert b"connection: close" in ended(gateway, closing)
    client = gateway.client(host="nested")
    assert client.get("/v0/health").status == 200
    # The outer router obeys, too: only a header for the inner one alone would tell them apart.
    assert client.get("/v0/nodes").json["nodes"][0]["route"] == "inner/two"


def test_a_nested_router_that_closes_the_clients_connection_is_an_error(gateway) -> None:
    client = gateway.client(host="nested")
    failed = client.get("/v0/health", x_do="close inner")
    assert (failed.status, failed.code) == (502, "router_failed")
    assert failed.json["error"]["detail"]["router"] == "inner"
    assert "cannot close the client's connection" in gateway.output
    assert client.get("/v0/health").status == 200, "the connection stays"


def test_a_router_streams_an_answer_of_its_own(gateway) -> None:
    answer = gateway.client().get("/v0/health?a=b", x_do="stream")
    assert (answer.body, answer.headers["transfer-encoding"]) == (b"one GET a=b", "chunked")


def test_a_request_is_replaced_and_its_body_read_as_often_as_wanted(gateway, name: str) -> None:
    client = gateway.client()
    client.append(name, 1)
    assert client.get(f"/v0/topics/another?{name}", x_do="replace").json["topic"] == name
    told = client.post("/v0/topics/a/diff", {"from_seq": 0}, x_do="body").json
    assert told == ['{"from_seq": 0}', '{"from_seq": 0}', "/v0/topics/a/diff"]


def test_a_filter_used_on_two_routes_has_two_instances_and_its_own_requests_pass_those_behind_it(gateway) -> None:
    client = gateway.client()
    for number in (1, 2):
        passed = client.get("/v0/health").headers
        # A sends a request of its own each time. It passes B, and C and D of the route.
        assert [passed[f"x-passed-{each}"] for each in "abcd"] == [str(number), *[str(2 * number)] * 3]
    # The nested route has a C of its own. A's own request goes to the node's address as well.
    inner = client.get("/node/1/v0/health").headers
    assert (inner["x-passed-a"], inner["x-passed-c"], "x-passed-d" in inner) == ("3", "2", False)


def test_routers_are_made_for_each_connection_and_closed_with_it(two_servers, gateways, installed, tmp_path) -> None:
    log = tmp_path / "log"
    configuration = contract(*(server.port for server in two_servers))
    configuration["routerDefinitions"][0]["config"]["log"] = str(log)
    gateway = gateways(configuration, PYTHONPATH=str(installed))

    def noted(what: str) -> int:
        return log.read_text().splitlines().count(what)

    initialized, made, ended = noted("initialized all outer one,inner"), noted("router made"), noted("router closed")
    assert initialized == 1, "once a generation"
    for _ in range(2):
        client = Client(gateway.port)
        for _ in range(3):
            client.get("/v0/health")
        client.close()
    until(lambda: noted("router closed") == ended + 2, "the routers to be closed")
    assert noted("router made") == made + 2
    assert noted("initialized all outer one,inner") == initialized
    closed = noted("factory closed")
    assert gateway.stop() == 0
    assert noted("factory closed") == closed + 1


@pytest.mark.parametrize("command", ["check", "explain", "migrate", "a file with a fault"])
def test_a_command_closes_each_plugin_that_it_initialized(installed, tmp_path, command: str) -> None:
    log = tmp_path / "log"
    configuration = contract(1, 2)
    for router in configuration["routerDefinitions"]:
        if router["type"] == "ContractRouter":
            router["config"]["log"] = str(log)
    if command not in ("check", "explain", "migrate"):
        configuration["filterDefinitions"][0] = {"name": "A", "type": "Failing"}
        command = "check"
    running = Running(tmp_path, configuration)
    running.write(running.configuration)
    arguments = {"explain": ["GET", "/v0/health"], "migrate": ["orders"]}.get(command, [])
    run(
        [sys.executable, str(ROOT / "manage.py"), "gateway", command, str(running.file), *arguments],
        {**os.environ, "PYTHONPATH": str(installed)},
    )
    noted = log.read_text().splitlines()
    initialized = [each for each in noted if each.startswith("initialized")]
    assert initialized
    assert len(initialized) == len(set(initialized)), "once a generation"
    assert noted.count("factory closed") == len(initialized)


@pytest.mark.parametrize("allows", [True, False])
def test_routes_may_share_a_cluster_if_their_router_allows_it(installed, tmp_path, allows: bool) -> None:
    configuration = contract(1, 2)
    configuration["routerDefinitions"][2]["routes"][0]["target"] = {"cluster": "one"}
    del configuration["clusterDefinitions"][1]
    configuration["routerDefinitions"][0]["config"]["shared"] = allows
    running = Running(tmp_path, configuration)
    done = checked(running, installed)
    assert done.returncode == (0 if allows else 1), done.stderr
    if not allows:
        assert "the routes 'one' and 'inner' both lead to the cluster 'one': remove one of the two" in done.stderr
        assert done.stderr.startswith(f"{running.file}:{line_of(running, 'name: inner')}: ")


def test_a_client_that_wants_no_answer_gets_202(gateway) -> None:
    client = gateway.client()
    answer = client.get("/v0/health", prefer="respond-async", x_do="no reply")
    assert (answer.status, answer.body) == (202, b"")
    assert "did not answer a request" not in gateway.output
    assert client.get("/v0/health", x_do="no reply").status == 202
    assert "did not answer a request" in gateway.output
    assert "answered a request" not in gateway.output
    assert client.get("/v0/health", prefer="respond-async", x_do="tell").status == 200
    assert "answered a request with Prefer: respond-async" in gateway.output


def test_the_topology_knows_topics_and_nodes(gateway, two_servers, name: str) -> None:
    client = gateway.client()
    asked = f"/v0/topics/{name}"
    assert client.get(asked, x_do="topology").json == {"exists": False, "head": 0, "nodes": ["up"]}
    client.append(name, 1, 2)
    # The append passed, so that the topology knows of it.
    assert client.get(asked, x_do="topology", x_forget="1").json == {"exists": True, "head": 2, "nodes": ["up"]}
    # Past the gateway: only a topology that forgot asks the server.
    past = Client(two_servers[0].port)
    past.append(name, 3)
    past.close()
    assert client.get(asked, x_do="topology").json == {"exists": True, "head": 3, "nodes": ["up"]}


def test_a_stream_is_at_the_address_that_the_client_uses(gateway, two_servers, name: str) -> None:
    client = gateway.client(prefix="/vc/nested")
    client.append(name, 1)
    begun = client.post("/v0/watch", {"topics": {name: {}}}).json
    assert begun["stream_url"].startswith("/vc/nested/v0/watch/")


def checked(running: Running, installed: Path) -> subprocess.CompletedProcess[str]:
    running.write(running.configuration)
    command = [sys.executable, str(ROOT / "manage.py"), "gateway", "check", str(running.file)]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return run(command, environment)


def line_of(running: Running, text: str) -> int:
    return next(number for number, line in enumerate(running.file.read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("config", "said", "at"),
    [
        ({"firstRoute": "nowhere"}, "route 'nowhere' does not exist", "firstRoute: nowhere"),
        ({"firstRoute": 7}, "routerDefinitions[0].config.firstRoute", "firstRoute: 7"),
        ({"firstRoute": "one", "x": 1}, "routerDefinitions[0].config.x: unknown field", "x: 1"),
    ],
)
def test_a_wrong_configuration_of_a_plugin_is_reported(installed, tmp_path, config, said: str, at: str) -> None:
    configuration = contract(1, 2)
    configuration["routerDefinitions"][0]["config"] = config
    running = Running(tmp_path, configuration)
    done = checked(running, installed)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.startswith(f"{running.file}:{line_of(running, at)}: ")


def test_a_plugin_that_cannot_be_made_is_reported_at_its_definition(installed, tmp_path) -> None:
    configuration = contract(1, 2)
    configuration["filterDefinitions"][0] = {"name": "A", "type": "Failing"}
    running = Running(tmp_path, configuration)
    done = checked(running, installed)
    assert done.returncode == 1
    said = "filter 'A' (Failing): initialize failed with KeyError: 'a fault of the plugin'"
    assert f"{running.file}:{line_of(running, 'name: A')}: {said}" in done.stderr.splitlines()


def lossy(one: int, two: int, **virtual_cluster: Any) -> dict[str, Any]:
    """A LossyRouter, which breaks read and follow_watch, behind a TopicRouter."""
    configuration = by_topic(one, two)
    configuration["routerDefinitions"][0]["routes"][0]["target"] = {"router": "lossy"}
    inner = {
        "name": "lossy",
        "type": "LossyRouter",
        "config": {"firstRoute": "eu"},
        "routes": [route("eu", 0, cluster="eu")],
    }
    configuration["routerDefinitions"].append(inner)
    configuration["virtualClusters"][0] |= virtual_cluster
    return configuration


def test_a_graph_that_breaks_what_it_offers_is_refused_with_the_line_to_add(installed, tmp_path) -> None:
    running = Running(tmp_path, lossy(1, 2, without=["pulse"]))
    done = checked(running, installed)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    for line, operation, why in zip(
        lines, ("follow_watch", "read"), ("a stream ends at each deploy", "the order is lost"), strict=True
    ):
        assert line.startswith(
            f"{running.file}:{line_of(running, 'without:')}: virtual cluster 'all': {operation} breaks"
        )
        assert f"the router 'lossy' (LossyRouter; eu): {why}." in line
        assert "'without: [follow_watch, pulse, read]'" in line
    running.configuration = lossy(1, 2, without=["follow_watch", "pulse", "read"])
    done = checked(running, installed)
    assert done.returncode == 0, done.stderr
    assert "not offered (501): read: the configuration of this virtual cluster excludes the operation" in done.stdout


def test_what_is_given_up_is_501_and_missing_from_the_schema(two_servers, gateways, installed, name: str) -> None:
    ports = [server.port for server in two_servers]
    gateway = gateways(lossy(*ports, without=["read", "follow_watch"]), PYTHONPATH=str(installed))
    client = gateway.client()
    assert client.append(name, 1).status == 201
    refused = client.post(f"/v0/topics/{name}/diff", {})
    assert (refused.status, refused.code) == (501, "not_offered")
    assert "excludes the operation" in refused.json["error"]["message"]
    assert client.post(f"/node/1/v0/topics/{name}/diff", {}).status == 501
    paths = client.get("/v0/schema", accept="application/json").json["paths"]
    assert "/v0/topics/{topic}/diff" not in paths
    assert "/v0/topics/{topic}/records" in paths
    streams = client.get("/v0/schema?format=asyncapi", accept="application/json").json
    for of in (streams["channels"], streams["operations"]):
        assert "follow_watch" not in of
        assert "follow_topic" in of


def test_one_way_that_refuses_an_operation_leaves_the_others(two_servers, gateways) -> None:
    """A Prefix on one route refuses the bus there. The virtual cluster still offers it."""
    configuration = by_topic(*(server.port for server in two_servers))
    configuration["filterDefinitions"] = [{"name": "own", "type": "Prefix", "config": {"prefix": "own."}}]
    configuration["routerDefinitions"][0]["routes"][0]["filters"] = ["own"]
    client = gateways(configuration).client()
    assert client.post("/topics/us.x", {"type": "noop", "url": "https://x.example/1"}).status != 501
    refused = client.post("/topics/eu.x", {"type": "noop", "url": "https://x.example/1"})
    assert (refused.status, b"renames topics" in refused.body) == (501, True)


# -- Reload, drain and kills -------------------------------------------------------------------------------------------


def test_a_changed_file_is_used_and_one_with_faults_is_not(gateway, name: str) -> None:
    client = gateway.client()
    before = client.get("/gateway/health").json["configuration"]
    first = client.get("/v0/health", x_do="tell").json
    broken = dict(gateway.configuration, virtualClusters=[])
    good = gateway.configuration
    gateway.write(broken)
    until(lambda: "The changed configuration is invalid" in gateway.output, "the fault to be reported")
    assert client.get("/gateway/health").json["configuration"] == before
    changed = {
        **good,
        "virtualClusters": [
            good["virtualClusters"][0],
            {**good["virtualClusters"][1], "gateways": [{"host": "other"}]},
        ],
    }
    gateway.write(changed)
    until(lambda: client.get("/gateway/health").json["configuration"] != before, "the change to be used")
    # The virtual cluster that did not change keeps its router on this connection.
    assert client.get("/v0/health", x_do="tell").json == {**first, "seen": first["seen"] + 2}
    assert gateway.client(host="other").get("/v0/health").status == 200
    assert gateway.client(host="nested").get("/v0/health").status == 404


def test_sigterm_tells_streams_and_finishes_requests(gateway, name: str) -> None:
    client = gateway.client()
    client.append(name, 1)
    stream = Stream(gateway, f"{client.post('/v0/watch', {'topics': {name: {}}}).json['stream_url']}")
    stream.records(1)
    with gateway.connect() as opened:
        opened.sendall(b"GET /v0/health HTTP/1.1\r\nhost: 127.0.0.1\r\nx-do: slow\r\n\r\n")
        opened.settimeout(0.1)
        with pytest.raises(socket.timeout):
            opened.recv(1)
        opened.settimeout(DEADLINE)
        assert gateway.stop() == 0
        assert opened.recv(65536).startswith(b"HTTP/1.1 200 OK")
    assert stream.event("error")["code"] == "shutting_down"
    stream.close()
