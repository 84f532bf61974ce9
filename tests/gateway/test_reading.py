"""The gateway reads a request as its server does: the same path, the same body, the same names of topics."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from base.errors import Forbidden, InvalidRequest, PayloadTooLarge, UnsupportedMediaType
from contract.paths import Tree, decoded
from gateway.api import ANONYMOUS, Operation, Request, Subject
from gateway.errors import NotOffered
from gateway.filters.deny import DenyConfig, DenyFactory, DenyRule
from gateway.filters.node import NodeConfig, NodeFactory
from gateway.filters.prefix import PrefixConfig, PrefixFactory
from gateway.rewrite.names import UNKNOWN, Renaming, renamed_event_id, renamed_request, topics_of
from gateway.routers.migrate.moves import Moves
from gateway.routers.migrate.router import MigrateRouter
from gateway.routers.splice.router import SegmentConfig, SpliceConfig, SpliceRouter, Splices
from gateway.routers.topic import Lookup, Table, TopicRouter, TopicRouterFactory
from http1.body import Body
from http1.errors import Refused
from tests.api.raw import answer
from tests.gateway.running import Client, cluster, route
from tests.gateway.spellings import ENCODED, ENCODED_APPENDS, ENCODED_DELETES, WITH_SLASH
from topics_project.urls import ROUTES, STREAMS
from wire.request.parse import parse, parse_query

SECRET = "secret"  # names that begin with this are denied
OWN = "mine."  # the prefix of the client's names at the server


def filtered(eu: int, us: int) -> dict[str, Any]:
    """One server behind Deny, behind Prefix, and two servers behind a TopicRouter without a default."""
    definition = {"prefixes": {"eu.": "eu", "us.": "us"}}
    return {
        "clusterDefinitions": [cluster("eu", eu), cluster("us", us)],
        "filterDefinitions": [
            {"name": "deny", "type": "Deny", "config": {"rules": [{"topics": [f"{SECRET}*"]}]}},
            {"name": "prefix", "type": "Prefix", "config": {"prefix": OWN}},
        ],
        "routerDefinitions": [
            {
                "name": "by-topic",
                "type": "TopicRouter",
                "config": definition,
                "routes": [route("eu", 0, cluster="eu"), route("us", 1, cluster="us")],
            }
        ],
        "virtualClusters": [
            {"name": "deny", "gateways": [{"prefix": "/deny"}], "filters": ["deny"], "target": {"cluster": "eu"}},
            {"name": "prefix", "gateways": [{"prefix": "/prefix"}], "filters": ["prefix"], "target": {"cluster": "eu"}},
            {"name": "topic", "gateways": [{"prefix": "/topic"}], "target": {"router": "by-topic"}},
        ],
    }


@pytest.fixture
def gateway(two_servers, gateways):
    return gateways(filtered(two_servers[0].port, two_servers[1].port))


def test_a_refusal_behind_a_prefix_is_that_of_a_server_with_the_names_of_the_client(
    gateway, direct, two_servers, name: str
) -> None:
    """Objects of others are `*`: their names are in no refusal."""
    a, b, c, q, dead = (f"{name}-{each}" for each in ("a", "b", "c", "q", "dead"))
    behind, plain = gateway.client(prefix="/prefix"), direct(two_servers[1])
    server, theirs = direct(two_servers[0]), f"theirs-{name}"
    queue = {"type": "queue", "dead_letter": dead, "unique_tags": True}
    for client in (behind, plain):
        assert client.call("PUT", f"/v0/topics/{dead}", {"type": "queue"}).status == 201
        assert client.call("PUT", f"/v0/topics/{q}", queue).status == 201
        assert client.call("PUT", f"/v0/routers/{name}", {"source": a, "dest": b}).status == 201
    of_others = {"source": theirs, "dest": f"{OWN}{c}"}
    assert server.call("PUT", f"/v0/routers/{OWN}{name}-9", of_others).status == 201
    refused = [
        ("PUT", f"/v0/routers/{name}-2", {"source": b, "dest": a}),
        ("PUT", f"/v0/routers/{name}", {"source": b, "dest": c}),
        ("PUT", f"/v0/routers/{name}-2", {"source": a, "dest": a}),
        ("PUT", f"/v0/routers/{name}-2", {"source": a, "dest": q}),
        ("PUT", f"/v0/routers/{name}-2", {"source": f"{a}-absent", "dest": b, "create_source": False}),
        ("PUT", f"/v0/topics/{dead}", {"dead_letter": q}),
        ("PUT", f"/v0/topics/{dead}", {"dead_letter": dead}),
        ("PUT", f"/v0/topics/{dead}", {"dead_letter": "x>"}),
        ("PUT", f"/v0/topics/{a}", {"type": "queue"}),
        ("POST", f"/v0/topics/{a}/claim", {}),
        ("POST", f"/v0/topics/{a}-new", {"records": [], "config": {"dead_letter": "y>"}}),
        ("POST", "/v0/watch", {"topics": {f"{a}-absent": {}}}),
        ("GET", f"/v0/topics/{a}-absent", None),
        ("GET", f"/v0/routers/{a}-absent", None),
        ("GET", f"/v0/topics/{a}/cursors/absent", None),
        ("GET", f"/v0/topics/{a}/groups/absent", None),
    ]
    for method, path, body in refused:
        found, expected = (client.call(method, path, body) for client in (behind, plain))
        assert expected.status >= 400
        assert (found.status, found.json["error"]) == (expected.status, expected.json["error"])
    for router, dest in ((f"{name}-9", b), (f"{name}-2", c)):
        found = behind.call("PUT", f"/v0/routers/{router}", {"source": a, "dest": dest})
        assert (found.status, found.json["error"]["detail"]["source"]) == (409, "*")
        assert theirs.encode() not in found.body
        assert OWN.encode() not in found.body


def test_the_cursor_of_a_router_is_there_under_the_name_in_the_list(gateway, direct, two_servers, name: str) -> None:
    client, server = gateway.client(prefix="/prefix"), direct(two_servers[0])
    path = f"/v0/topics/{name}-a/cursors"
    client.append(f"{name}-a", 1)
    assert client.call("PUT", f"/v0/routers/{name}>b", {"source": f"{name}-a", "dest": f"{name}-b"}).status == 201
    (listed,) = client.get(path).json["cursors"]
    found = client.get(f"{path}/{name}%3Eb")
    assert found.status == 200
    for shown in (listed, found.json):
        assert (shown["topic"], shown["cursor"], shown["kind"]) == (f"{name}-a", f"{name}>b", "router")
    # A named cursor of the same name counts first, and one that has the server's name of an owner is another.
    assert client.call("PUT", f"/v0/routers/{name}-r", {"source": f"{name}-a", "dest": f"{name}-c"}).status == 201
    assert client.get(f"{path}/{name}-r").json["kind"] == "router"
    assert client.call("PUT", f"{path}/{name}-r", {"seq": 1}).status == 201
    assert client.get(f"{path}/{name}-r").json["kind"] == "named"
    assert client.call("PUT", f"{path}/{OWN}{name}-n", {"seq": 1}).status == 201
    assert server.get(f"/v0/topics/{OWN}{name}-a/cursors/{OWN}{name}-n").status == 200
    refused = client.get(f"{path}/{name}-n")
    assert (refused.status, refused.json["error"]["message"]) == (404, f"topic '{name}-a' has no cursor '{name}-n'")


@pytest.mark.parametrize("spelling", ENCODED)
def test_an_encoded_path_is_the_call_that_the_server_sees(
    gateway, direct, two_servers, name: str, spelling: str
) -> None:
    server = direct(two_servers[0])
    for topic in (f"{SECRET}{name}", f"{OWN}{name}", name):
        server.append(topic, topic)
    assert gateway.client(prefix="/deny").get(spelling.format(f"{SECRET}{name}")).status == 403
    assert gateway.client(prefix="/deny").get(spelling.format(name)).status == 200
    read = gateway.client(prefix="/prefix").get(spelling.format(name)).json
    assert [each["data"] for each in read["records"]] == [f"{OWN}{name}"]
    gateway.client(prefix="/topic").append(f"us.{name}", 1)
    assert gateway.client(prefix="/topic").get(spelling.format(f"us.{name}")).json["head_seq"] == 1


def test_an_encoded_append_or_delete_reaches_only_the_topic_with_the_prefix(
    gateway, direct, two_servers, name: str
) -> None:
    """The client spells the whole name of another tenant's topic."""
    server, client, theirs = direct(two_servers[0]), gateway.client(prefix="/prefix"), f"theirs.{name}"
    server.append(theirs, "theirs", "theirs")
    before = server.get(f"/v0/topics/{theirs}/records").json["records"]

    def own() -> list[Any]:
        return [each["data"] for each in server.get(f"/v0/topics/{OWN}{theirs}/records").json["records"]]

    for spelling in ENCODED_APPENDS:
        appended = client.post(spelling.format(theirs), {"records": [{"data": spelling}]})
        assert (appended.status in (200, 201), appended.json["topic"]) == (True, theirs)
    assert own() == ENCODED_APPENDS
    for seq, spelling in enumerate(ENCODED_DELETES, 1):
        assert client.post(spelling.format(theirs), {"seqs": [seq]}).status == 200
        assert own() == ENCODED_APPENDS[seq:]
    assert server.get(f"/v0/topics/{theirs}/records").json["records"] == before


def test_a_browser_behind_a_prefix_gets_json_without_the_prefix(gateway, direct, two_servers, name: str) -> None:
    direct(two_servers[0]).append(f"{OWN}{name}", 1)
    accept = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"
    others = (
        "TEXT/HTML",
        "text/*",
        "application/json;q=0.1, */*",
        "text/html;q=0.2, application/json;q=0.1",
        "TEXT/*;q=1",
    )
    for path in (f"/v0/topics/{name}", f"/v0/topics/{name}/records", "/v0/topics"):
        for each in (accept, *others):
            answer = gateway.client(prefix="/prefix").get(path, accept=each, sec_fetch_mode="navigate")
            assert answer.status == 200
            assert answer.headers["content-type"].startswith("application/"), each  # JSON, or events
            assert OWN not in answer.body.decode()
    assert "text/html" in gateway.client(prefix="/prefix").get("/v0/docs", accept=accept).headers["content-type"]


@pytest.mark.parametrize("spelling", WITH_SLASH)
@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_an_encoded_slash_is_refused_by_both(
    gateway, direct, two_servers, name: str, spelling: str, accept: str
) -> None:
    server = direct(two_servers[0])
    server.append(name, 1)
    for client in (server, *(gateway.client(prefix=each) for each in ("/deny", "/prefix", "/topic"))):
        refused = client.get(spelling.format(name), accept=accept)
        assert (refused.status, refused.code) == (404, "not_found")


def test_a_quoted_name_deletes_nothing(gateway, direct, two_servers, name: str) -> None:
    server = direct(two_servers[0])
    server.append(name, 1)
    for client in (server, gateway.client(prefix="/deny")):
        assert client.post(f"/v0/topics/{name}%2Fdelete", {"match": ["seq", "Gte", 0]}).status == 404
    assert server.get(f"/v0/topics/{name}").json["count"] == 1


@pytest.mark.parametrize("prefix", ["/deny", "/prefix", "/topic"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/v0/new"), ("PATCH", "/v0/topics/a"), ("GET", "/admin/")])
def test_a_call_that_the_gateway_does_not_know_is_refused(gateway, prefix: str, method: str, path: str) -> None:
    refused = gateway.client(prefix=prefix).call(method, path)
    assert (refused.status, refused.code) == (501, "not_offered")


def test_the_methods_of_a_path_are_told(gateway) -> None:
    for prefix in ("/deny", "/prefix"):
        assert gateway.client(prefix=prefix).call("OPTIONS", "/v0/topics/a").status == 204


def zipped(client: Client, method: str, path: str, body: Any, **headers: str) -> Any:
    return client.call(method, path, gzip.compress(json.dumps(body).encode()), content_encoding="gzip", **headers)


def test_a_zipped_body_is_read_as_the_plain_one(gateway, direct, two_servers, name: str) -> None:
    direct(two_servers[0]).append(f"{SECRET}{name}", 1)
    direct(two_servers[0]).append(f"{OWN}{name}", 2)
    deny, prefix = gateway.client(prefix="/deny"), gateway.client(prefix="/prefix")
    assert zipped(deny, "POST", "/v0/watch", {"topics": {f"{SECRET}{name}": {}}}).status == 403
    body = {"source": f"{SECRET}{name}", "dest": f"{name}.copy"}
    assert zipped(deny, "PUT", f"/v0/routers/{name}", body).status == 403
    watched = zipped(prefix, "POST", "/v0/watch", {"topics": {name: {}}})
    assert (watched.status, list(watched.json["topics"])) == (200, [name])
    assert zipped(prefix, "POST", f"/v0/topics/{name}", {"records": [{"data": 3}]}).json["last_seq"] == 2
    older = gzip.compress(b'{"topics": {"%b": {}}}' % name.encode())
    watched = prefix.call("POST", "/v0/watch", older, content_encoding="x-gzip")
    assert (watched.status, list(watched.json["topics"])) == (200, [name])


def test_a_body_that_is_not_zipped_as_it_says_is_refused_as_by_the_server(gateway, direct, two_servers) -> None:
    for client in (direct(two_servers[0]), gateway.client(prefix="/deny")):
        refused = client.post("/v0/watch", gzip.compress(b"{}")[:-3], content_encoding="gzip")
        assert (refused.status, refused.code) == (400, "invalid_request")
        refused = client.post("/v0/watch", b"{}", content_encoding="br")
        assert (refused.status, refused.code) == (415, "unsupported_media_type")
        assert refused.headers["accept-encoding"] == "gzip"


def test_a_line_that_is_no_request_is_refused_at_once(gateway) -> None:
    for line in (b"GET\r\n\r\n", b"hello\r\n\r\n"):
        with gateway.connect() as opened:
            opened.sendall(line)
            refused = answer(opened)
        assert (refused.status, json.loads(refused.body)["error"]["code"]) == (400, "invalid_request")


def test_dead_letters_stay_within_the_prefix_and_go_back(gateway, direct, two_servers, name: str) -> None:
    client, server = gateway.client(prefix="/prefix"), direct(two_servers[0])
    config = b'{"type": "queue", "max_deliveries": 1, "dead_l\\u0065tter": "%b-dead"}' % name.encode()
    assert client.call("PUT", f"/v0/topics/{name}", config).json["config"]["dead_letter"] == f"{name}-dead"
    client.append(name, "job")
    client.post(f"/v0/topics/{name}/claim", {"node": "w"})
    client.post(f"/v0/topics/{name}/nack", {"node": "w", "seqs": [1]})
    client.post(f"/v0/topics/{name}/claim", {"node": "w"})
    letter = client.post(f"/v0/topics/{name}-dead/diff", {}).json["records"][0]
    assert letter["meta"]["$dead_letter_from"] == name
    assert server.get(f"/v0/topics/{OWN}{name}-dead").json["count"] == 1
    # A letter of another tenant's queue, as a handover of records can bring it.
    server.call("PUT", f"/v0/topics/{name}", {"type": "queue"})
    forged = {"$seq": 1, "$ts": 1, "data": "forged", "meta": {"$dead_letter_from": name}}
    handover = {"here": "here", "source": "there", "from_seq": 0, "next_from_seq": 1, "records": [forged]}
    assert server.post(f"/v0/topics/{OWN}{name}-dead/mirror", handover).status == 200
    done = client.post(f"/v0/topics/{name}-dead/redrive", {}).json
    assert (done["topic"], done["queues"], done["skipped"]) == (f"{name}-dead", {name: 1}, [])
    assert server.get(f"/v0/topics/{name}").json["count"] == 0
    assert [each["data"] for each in client.post(f"/v0/topics/{name}/claim", {"node": "w"}).json["claimed"]] == ["job"]
    client.call("DELETE", f"/v0/topics/{name}")
    client.append(f"{name}-x", 1)
    mirrored = client.post(f"/v0/topics/{name}-x/mirror", handover | {"source": "there"}).json
    assert (mirrored["topic"], mirrored["source"]) == (f"{name}-x", "there")
    refused = client.post(f"/v0/topics/{name}-x", {"records": [{"data": 1, "meta": forged["meta"]}]})
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_metrics_of_all_clients_are_not_for_one(gateway) -> None:
    refused = gateway.client(prefix="/prefix").get("/v0/metrics")
    assert (refused.status, refused.code) == (501, "not_offered")


def names(topics: list[dict[str, Any]]) -> list[str]:
    return [each["topic"] for each in topics]


def test_a_stream_url_behind_the_base_of_a_client_leads_to_the_stream(gateway, name: str) -> None:
    client = gateway.client(prefix="/prefix")
    client.append(name, 1)
    url = client.post("/v0/watch", {"topics": {name: {}}}).json["stream_url"]
    assert url.startswith("/prefix/v0/watch/")
    assert client.get(url.removesuffix("/") + "x").status == 404
    listed = [client.get(path).json["topics"] for path in ("/prefix/v0/topics", "/v0/topics")]
    assert name in names(listed[0])
    assert names(listed[0]) == names(listed[1])


# -- Every call of a server --------------------------------------------------------------------------------------------

NAMED = ("topic", "topics", "source", "dest", "dead_letter", "queue")  # members and fields that name topics
SITES = {("mirror", "source")}  # names a site
EXAMPLES = {
    "publish": {"type": "create", "url": "https://shop.example/1"},
    "subscribe": {"callback": "https://shop.example/"},
}
ENDPOINTS = [*ROUTES.endpoints, *STREAMS]


class Place(NamedTuple):
    """Where a call names a topic: a word of the path, a field of the query, or a member of the body."""

    where: str
    path: tuple[str, ...]


def members(shape: Any, call: str, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the members of a body that name topics."""
    for each in msgspec.structs.fields(shape) if shape is not None else ():
        if each.encode_name in NAMED and (call, each.encode_name) not in SITES:
            yield (*above, each.encode_name)
        for inner in (each.type, *get_args(each.type)):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                yield from members(inner, call, (*above, each.encode_name))


def places(endpoint: Any) -> Iterator[Place]:
    if "<str:topic>" in endpoint.path:
        yield Place("path", ())
    yield from (Place("body", path) for path in members(endpoint.body, endpoint.id))
    yield from (Place("query", path) for path in members(endpoint.query, endpoint.id))


def value_at(found: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        if found is None or found is msgspec.UNSET:
            return None
        found = getattr(found, step)
    return found


def read_by_server(endpoint: Any, request: Request) -> set[str]:
    """Returns the topics that the server reads in a request, with the server's own functions."""
    path = decoded(request.path)
    tree = Tree[None]()
    tree.add((None if each.startswith("<") else each for each in endpoint.path.split("/")), None)
    found = tree.find(path)
    assert found is not None
    kinds = [each for each in endpoint.path.split("/") if each.startswith("<")]
    names = {name for kind, name in zip(kinds, found[1], strict=True) if kind == "<str:topic>"}
    body = asyncio.run(request.body())
    read = {"body": parse(body, endpoint.body) if endpoint.body else None}
    read["query"] = parse_query(request.query.encode(), endpoint.query) if endpoint.query else None
    for where, at in places(endpoint):
        value = value_at(read[where], at) if where != "path" else None
        if endpoint.id == "redrive" and where == "body" and value is None:
            value = "*"  # all queues
        names |= {value} if isinstance(value, str) else set(value or ())
    return names


def spelled(endpoint: Any, place: Place, name: str, spelling: str) -> Request:
    """Returns a call that names the topic at this place, and `other` at all other places."""
    words = [
        "other" if each == "<str:topic>" else "n" if each.startswith("<") else each for each in endpoint.path.split("/")
    ]
    body = dict(endpoint.example or EXAMPLES.get(endpoint.id, {})) if endpoint.body is not None else None
    query = ""
    if place.where == "path":
        words[endpoint.path.split("/").index("<str:topic>")] = name
    for each in places(endpoint):
        value: Any = name if each == place else "other"
        if each.where == "query":
            key = f"%{ord(each.path[0][0]):x}{each.path[0][1:]}" if spelling == "escaped" else each.path[0]
            query += f"&{key}={value}"
        elif each.where == "body" and body is not None:
            *above, last = each.path
            at = body
            for step in above:
                at = at.setdefault(step, {})
            at[last] = {value: {}} if endpoint.id == "watch" else [value] if last == "topics" else value
    path, headers = "/" + "/".join(words), []
    if spelling == "escaped" and place.where == "path":
        path = "/" + "/".join(f"%{ord(each[0]):X}{each[1:]}" for each in words)
    text = json.dumps(body).encode() if body is not None else b""
    if place.where == "body":
        member = f'"{place.path[-1]}"'.encode()
        if spelling == "escaped":
            text = text.replace(member, b'"\\u00%02x%b' % (member[1], member[2:]))
    if spelling == "zipped":
        text, headers = gzip.compress(text), [(b"content-encoding", b"gzip")]
    return Request(endpoint.method, path, query[1:], headers, text)


SPELLINGS = ("plain", "escaped", "zipped")
CASES = [
    (endpoint, place, spelling)
    for endpoint in ENDPOINTS
    for place in places(endpoint)
    for spelling in SPELLINGS
    if Operation(endpoint.id) not in UNKNOWN
]


@dataclass
class Context:
    """What the runtime gives to a filter."""

    authenticated_subject: Subject = ANONYMOUS


def filtered_by(factory: Any, config: Any, request: Request) -> Request:
    it = factory.create_filter(None, factory.initialize(None, config))
    if request.operation in getattr(factory, "offers_not", {}):
        raise NotOffered(request.operation.value, "")
    found = asyncio.run(it.on_request(request.operation, request, Context()))
    assert isinstance(found, Request)
    return found


@pytest.mark.parametrize(
    ("endpoint", "place", "spelling"), CASES, ids=[f"{e.id}-{'.'.join((p.where, *p.path))}-{s}" for e, p, s in CASES]
)
def test_a_topic_that_the_server_reads_is_read_by_filters_and_routers(
    endpoint: Any, place: Place, spelling: str
) -> None:
    def request() -> Request:
        return spelled(endpoint, place, "secret.x", spelling)

    operation = Operation(endpoint.id)
    names = read_by_server(endpoint, request())
    assert "secret.x" in names
    assert set(asyncio.run(topics_of(request()))) == names
    with pytest.raises(Forbidden):
        filtered_by(DenyFactory(), DenyConfig([DenyRule(topics=["secret.*"])]), request())
    filtered_by(DenyFactory(), DenyConfig([DenyRule(topics=["secrets"])]), request())
    if operation.is_bus:
        with pytest.raises(NotOffered):
            filtered_by(PrefixFactory(), PrefixConfig("mine."), request())
    else:
        inner = filtered_by(PrefixFactory(), PrefixConfig("mine."), request())
        assert read_by_server(endpoint, inner) == {f"mine.{name}" for name in names}
    router = TopicRouter(Lookup(Table(prefixes={"secret.": "a", "other": "b"}), ["a", "b"]))
    plain = {name for name in names if name != "*"}
    if len(plain) > 1:
        with pytest.raises(InvalidRequest, match="on several servers"):
            asyncio.run(router.route(operation, request()))
    else:
        assert asyncio.run(router.route(operation, request())) == "a"


@pytest.mark.parametrize("operation", sorted(UNKNOWN, key=lambda each: each.value))
def test_a_call_whose_topics_no_filter_can_read_is_offered_by_none_that_decides_by_topics(operation: Operation) -> None:
    for factory in (DenyFactory, PrefixFactory):
        assert operation in factory.offers_not
    assert operation in TopicRouterFactory.offers_not


@pytest.mark.parametrize("is_zipped", [False, True])
def test_a_gateway_holds_no_larger_body_than_the_server_takes_of_a_call(is_zipped: bool) -> None:
    text = json.dumps({"node": os.urandom(1024 * 1024).hex()}).encode()
    body = gzip.compress(text) if is_zipped else text
    headers = [(b"content-encoding", b"gzip")] if is_zipped else []

    def read(path: str) -> bytes:
        arriving = Body(None, len(body))
        arriving.feed(body)
        arriving.end()
        return asyncio.run(Request("POST", path, "", headers, arriving).body())

    assert read("/v0/topics/orders") == text
    for path in ("/v0/topics/orders/diff", "/v0/watch", "/v0/topics/orders/redrive"):
        with pytest.raises((PayloadTooLarge, Refused)) as refused:
            read(path)
        assert refused.value.status == 413


@pytest.mark.parametrize("is_zipped", [False, True])
def test_a_call_with_a_larger_body_is_413_at_a_filter_that_reads_it(gateway, is_zipped: bool) -> None:
    text = json.dumps({"node": os.urandom(1024 * 1024).hex()}).encode()
    body, headers = (gzip.compress(text, 1), {"content_encoding": "gzip"}) if is_zipped else (text, {})
    refused = gateway.client(prefix="/prefix").post("/v0/watch", body, **headers)
    error = refused.json["error"]
    assert (refused.status, error["code"], error["detail"]) == (413, "payload_too_large", {"max": 1024 * 1024})
    assert error["message"] == "the body is too large: the gateway reads it, and expects at most 1048576 bytes"


def test_a_redrive_of_every_queue_stays_within_the_prefix() -> None:
    for body in (b"", b"{}", b'{"queue": null}', b'{"seqs": [1]}'):
        request = Request("POST", "/v0/topics/dead/redrive", body=body)
        inner = filtered_by(PrefixFactory(), PrefixConfig("mine."), request)
        assert asyncio.run(inner.json())["queue"] == "mine.*"
        with pytest.raises(Forbidden):
            filtered_by(DenyFactory(), DenyConfig([DenyRule(topics=["secret"])]), request)


@pytest.mark.parametrize("body", [b"", b'{"queue": null}', b'{"queue": "*"}', b'{"queue": "job*"}'])
@pytest.mark.parametrize("moved", [(), ("dead",), ("dead", "jobs")])
def test_a_redrive_of_several_queues_goes_to_the_server_of_the_dead_letter_topic(
    moved: tuple[str, ...], body: bytes
) -> None:
    router = MigrateRouter(Moves("old", "new", ["dead", "jobs"]))
    for topic in moved:
        router.moves.topics[topic].live = "new"
    asyncio.run(router.check_one_server(Request("POST", "/v0/topics/dead/redrive", body=body)))


def test_a_redrive_of_a_queue_on_another_server_is_refused_during_a_move() -> None:
    router = MigrateRouter(Moves("old", "new", ["dead", "jobs"]))
    router.moves.topics["dead"].live = "new"
    with pytest.raises(InvalidRequest, match="on several servers"):
        asyncio.run(router.check_one_server(Request("POST", "/v0/topics/dead/redrive", body=b'{"queue": "jobs"}')))


@pytest.mark.parametrize("queue", [None, "*", "ord*", "orders"])
def test_a_redrive_that_covers_a_spliced_topic_is_offered_by_no_splice(queue: str | None) -> None:
    spliced = SpliceConfig({"orders": [SegmentConfig(route="old", topic="orders")]}, default="old")
    router = SpliceRouter(Splices(spliced))
    body = json.dumps({} if queue is None else {"queue": queue}).encode()
    with pytest.raises(NotOffered):
        asyncio.run(router.check_others(Request("POST", "/v0/topics/dead/redrive", body=body)))
    asyncio.run(router.check_others(Request("POST", "/v0/topics/dead/redrive", body=b'{"queue": "jobs*"}')))


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "Multipart/Form-Data; boundary=x"])
def test_a_form_is_refused_because_only_a_page_of_the_server_reads_it(content_type: str) -> None:
    request = Request("POST", "/v0/watch", headers=[(b"content-type", content_type.encode())], body=b"topics=secret")
    with pytest.raises(UnsupportedMediaType):
        filtered_by(DenyFactory(), DenyConfig([DenyRule(topics=["secret"])]), request)


TWICE = [
    b'{"topics": {"other": {}}, "topics": {"secret.x": {}}}',
    b'{"topics": {"secret.x": {}}, "topics": {"other": {}}}',
]


@pytest.mark.parametrize("body", TWICE)
def test_a_member_that_is_sent_twice_counts_as_at_the_server(body: bytes) -> None:
    request = Request("POST", "/v0/watch", body=body)
    watch = next(each for each in ENDPOINTS if each.id == "watch")
    assert set(asyncio.run(topics_of(request))) == read_by_server(watch, request)


NO_UTF_8 = [
    ("PUT", "/v0/topics/x", b'{"dead_letter": "\xff"}'),
    ("POST", "/v0/topics/x", b'{"records": [], "config": {"dead_letter": "\xff"}}'),
    ("POST", "/v0/topics/x", b'{"records": [{"data": 1}], "copy": "\xff"}'),
    ("POST", "/v0/watch", b'{"topics": {"secret.x": {}, "\xff": {}}}'),
]


@pytest.mark.parametrize(("method", "path", "body"), NO_UTF_8)
def test_a_name_that_is_no_text_passes_to_the_server_which_refuses_the_body(
    method: str, path: str, body: bytes
) -> None:
    inner = filtered_by(PrefixFactory(), PrefixConfig("mine."), Request(method, path, body=body))
    assert asyncio.run(inner.body()) == body
    (endpoint,) = (each for each in ENDPOINTS if each.id == inner.operation.value)
    with pytest.raises(InvalidRequest, match="not UTF-8"):
        parse(body, endpoint.body)


def test_an_id_with_a_letter_that_no_name_has_is_for_the_server_to_refuse() -> None:
    assert renamed_event_id(b"eu.%E2%82%AC:5", lambda name: name.removeprefix("eu.")) == b"?:5"


# -- CloudEvents -------------------------------------------------------------------------------------------------------

EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "t", "data": {"config": {"dead_letter": "secret"}}}
BINARY = {"ce_specversion": "1.0", "ce_id": "2", "ce_source": "/shop", "ce_type": "t"}


def send_events(client: Client, topic: str) -> list[Any]:
    """Sends an event in each of the three modes."""
    path = f"/v0/topics/{topic}"
    return [
        client.post(path, EVENT, content_type="application/cloudevents+json"),
        client.post(path, EVENT["data"], **BINARY),
        client.post(path, [{**EVENT, "id": "3"}], content_type="application/cloudevents-batch+json"),
    ]


def test_an_append_of_events_is_an_append_for_filters_and_routers(gateway, direct, two_servers, name: str) -> None:
    expected = [
        EVENT,
        {**EVENT, "id": "2", "datacontenttype": "application/json"},
        {**EVENT, "id": "3"},
    ]
    first = direct(two_servers[0])
    deny, prefix, topic = (gateway.client(prefix=each) for each in ("/deny", "/prefix", "/topic"))
    assert [each.status for each in send_events(deny, f"{SECRET}{name}")] == [403, 403, 403]
    assert [each.status for each in send_events(deny, name)] == [201, 200, 200]
    assert [each.json["topic"] for each in send_events(prefix, name)] == [name] * 3
    assert send_events(topic, f"us.{name}")[2].json["head_seq"] == 3
    first.append(f"{OWN}{name}", 4)
    for client, of in ((prefix, name), (first, f"{OWN}{name}")):
        answer = client.get(f"/v0/topics/{of}/records", accept="application/cloudevents+json")
        assert answer.headers["content-type"] == "application/cloudevents-batch+json"
        assert answer.json[:3] == expected
        assert (answer.json[3]["source"], answer.json[3]["data"]) == (f"/v0/topics/{of}", 4)
        assert json.loads(answer.headers["topics-answer"])["topic"] == of
        one = client.get(f"/v0/topics/{of}/records/2", accept="application/cloudevents+json")
        assert one.json == expected[1]
    for client in (first, prefix):
        refused = client.post(f"/v0/topics/{name}", {"id": "1"}, content_type="application/cloudevents+json")
        assert (refused.status, refused.code) == (400, "invalid_request")


def test_a_forced_node_is_the_node_of_events() -> None:
    headers = [(b"content-type", b"application/cloudevents+json")]
    request = Request("POST", "/v0/topics/a", headers=headers, body=gzip.compress(json.dumps(EVENT).encode()))
    zipped = request.replace(headers=[*headers, (b"content-encoding", b"gzip")])
    inner = filtered_by(NodeFactory(), NodeConfig(name="n", force=True), zipped)
    body = asyncio.run(inner.json())
    assert (body["node"], body["records"][0]["data"]) == ("n", EVENT["data"])
    assert inner.headers == [(b"content-type", b"application/json")]


def test_an_event_whose_data_are_a_form_is_an_event() -> None:
    """The server keeps the form as bytes. It reads no field of it as a member of the append."""
    event = [(b"ce-specversion", b"1.0"), (b"ce-id", b"1"), (b"ce-source", b"/shop"), (b"ce-type", b"t")]
    headers = [(b"content-type", b"application/x-www-form-urlencoded"), *event]
    request = Request("POST", "/v0/topics/a", headers=headers, body=b"config={}")
    inner = asyncio.run(renamed_request(request, Renaming(str, str)))
    (record,) = asyncio.run(inner.json())["records"]
    assert base64.b64decode(record["data"]) == b"config={}"
