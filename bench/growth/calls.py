"""The calls of the API: each endpoint of the table, on new small topics amid the store and on its largest things."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from bench.growth.store import Size
from tests.api.endpoints import STREAMS, TABLE, Call, Endpoint, filled

ROOT = "the-root-key-of-the-benchmark"
Work = Callable[[str], object]


@dataclass(frozen=True)
class Operation:
    """`work` and `before` get a new name for each time. `before` is not counted."""

    name: str
    work: Work
    before: Work = lambda name: None


class Client:
    """Calls on one kept connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Returns the answer's JSON. Raises AssertionError for a refusal."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        content = None if body is None else json.dumps(body)
        if content is not None:
            sent["Content-Type"] = "application/json"
        address = quote(path, safe="/?&=%:*,.@-")
        try:
            self.connection.request(method, address, content, sent)
            answer = self.connection.getresponse()
        except ConnectionError:  # the server closed the connection while the store was filled
            self.connection.close()
            self.connection.request(method, address, content, sent)
            answer = self.connection.getresponse()
        text = answer.read().decode()
        assert answer.status < 400, f"{method} {path}: {answer.status} {text[:300]}"
        return json.loads(text) if answer.headers.get_content_type() == "application/json" and text else text

    def page(self, path: str, cookie: str) -> None:
        self.send("GET", path, Cookie=cookie)

    def bus(self, method: str, path: str, body: Any = None, token: str = ROOT) -> Any:
        basic = base64.b64encode(f"{token}:x".encode()).decode()
        return self.send(method, path, body, Authorization=f"Basic {basic}")

    def stream(self, path: str, until: str, **headers: str) -> str:
        """Opens a stream, reads up to the first event of this name, or of any, and returns its data."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", quote(path, safe="/?&=%:*,."), headers={"Accept": "text/event-stream", **headers})
            answer = connection.getresponse()
            assert answer.status == 200, f"{path}: {answer.status} {answer.read()[:300]!r}"
            event = ""
            while line := answer.readline().decode():
                if line.startswith("event:"):
                    event = line[6:].strip()
                if line.startswith("data:") and until in ("", event):
                    return line[5:].strip()
            raise AssertionError(f"{path} ended")
        finally:
            connection.close()


def operations(client: Client, size: Size) -> Iterator[Operation]:
    yield from small(client)
    yield from large(client, size)
    for path in ("health", "ready", "schema"):
        yield Operation(f"GET {path}", lambda name, path=path: client.send("GET", f"/v0/{path}"))  # type: ignore[misc]
    yield from bus(client)


# -- on new small topics ------------------------------------------------------------------------------------------------------


def small(client: Client) -> Iterator[Operation]:
    """Each endpoint and stream of the table, on topics that are made for it."""
    sessions: dict[str, int] = {}

    def make(name: str, path: str, call: Call) -> None:
        topic = call.topic(name)
        if call.of_queue or call.of_sealed:
            client.send("PUT", f"/v0/topics/{topic}", {"type": "queue"} if call.of_queue else {"sealed": True})
        if not call.of_sealed:
            client.send("POST", f"/v0/topics/{topic}", {"records": [{"data": 1}, {"data": 2}]})
        if "<cursor>" in path:
            client.send("PUT", f"/v0/topics/{topic}/cursors/{topic}", {"seq": 1})
        if "<schedule>" in path:
            client.send("PUT", f"/v0/topics/{topic}/schedules/{topic}", {"not_before": 2**42, "data": 1})
        if "<router>" in path:
            client.send("PUT", f"/v0/routers/{name}-r", {"source": name, "dest": f"{name}-d"})
        if "<webhook>" in path:
            client.send("PUT", f"/v0/webhooks/{topic}", {"url": "https://example.com/", "topics": [topic]})
        if "<group>" in path:
            joined = client.stream(f"/v0/topics/{topic}/groups/{topic}/stream", "joined")
            sessions[name] = json.loads(joined)["session"]

    def send(endpoint: Endpoint, call: Call, name: str) -> None:
        path = endpoint[1].replace("<seq>", "1").replace("<router>", f"{name}-r").replace("<kind>", "keys")
        own = re.sub(r"<[a-z]+>", call.topic(name), path)
        body = filled(call.body, topic=name, session=sessions.get(name, 0))
        query = call.query or ("?page_size=5" if path in ("topics", "routers") else "")
        client.send(endpoint[0], f"/v0/{own}{query}", body)

    def follow(path: str, call: Call, name: str) -> None:
        own, group = re.sub(r"<[a-z]+>", call.topic(name), path), "<group>" in path
        query = call.query or ("" if group else "?from_seq=0")
        client.stream(f"/v0/{own}{query}", "joined" if group else "")

    for endpoint, call in TABLE.items():
        yield Operation(" ".join(endpoint), partial(send, endpoint, call), partial(make, path=endpoint[1], call=call))
    for (_, path), call in STREAMS.items():
        if path != "watch/<wid>":  # as "a watch session"
            yield Operation(f"GET {path}", partial(follow, path, call), partial(make, path=path, call=call))


# -- on the largest things ----------------------------------------------------------------------------------------------------


def large(client: Client, size: Size) -> Iterator[Operation]:
    """Calls on the topic and the queue with the most records, and on lists."""
    head = client.send("GET", "/v0/topics/large")["head_seq"]
    middle, seqs, t = head // 2 | 1, itertools.count(head // 3 | 1, 2), "/v0/topics/large"  # odd: no holes
    before = itertools.count(11, 10)
    since = int(time.time() * 1000) - 3_600_000

    def diff(**body: Any) -> Work:
        return lambda name: client.send("POST", f"{t}/diff", {"limit": 10, **body})

    def get(path: str) -> Work:
        return lambda name: client.send("GET", f"/v0/{path}")

    def post(path: str, **body: Any) -> Work:
        return lambda name: client.send("POST", f"/v0/{path}", filled(body, name=name))

    def delete(**body: Any) -> Work:
        return post("topics/large/delete", **body)

    yield Operation("append to the largest topic", post("topics/large", records=[{"data": 1, "tag": "new"}]))
    yield Operation("append of 100", post("topics/large", records=[{"data": 1}] * 100))
    yield Operation(
        "append with an idempotency key", post("topics/large", records=[{"data": 1}], idempotency_key="k-{name}")
    )
    yield Operation("append to a source", post("topics/t1", records=[{"data": 1}]))
    yield Operation(
        "append to a new topic", lambda name: client.send("POST", f"/v0/topics/{name}", {"records": [{"data": 1}]})
    )
    yield Operation("diff from the start", diff(from_seq=0))
    yield Operation("diff in the middle", diff(from_seq=middle))
    yield Operation("diff at the tail", diff(from_seq=head))
    yield Operation("diff from a time", diff(from_ts=since))
    yield Operation("diff of a dest", post("topics/d1/diff", from_seq=0, limit=10))
    yield Operation("diff by an absent tag", diff(from_seq=0, match=["tag", "Eq", "absent"]))
    yield Operation("diff by an absent prefix", diff(from_seq=0, match=["tag", "Glob", "absent*"]))
    yield Operation("diff by a common tag", diff(from_seq=middle, match=["tag", "Eq", "order:7"]))
    yield Operation("diff by a common prefix", diff(from_seq=middle, match=["tag", "Glob", "order:*"]))
    yield Operation("diff by a rare prefix", diff(from_seq=0, match=["tag", "Glob", "rare:*"]))
    yield Operation("diff without a node", diff(from_seq=middle, node="n1"))
    yield Operation("diff of the last matches", post("topics/large/diff", tail=10, match=["tag", "Eq", "order:7"]))
    yield Operation("the last records", get("topics/large/records?limit=10"))
    yield Operation("a record in the middle", get(f"topics/large/records/{middle}"))
    yield Operation("figures of the largest topic", get("topics/large"))
    yield Operation("set a cursor", lambda name: client.send("PUT", f"{t}/cursors/c5", {"seq": next(seqs)}))
    yield Operation("cursors of the largest topic", get("topics/large/cursors?page_size=5"))
    yield Operation("topics", get("topics?page_size=5"))
    yield Operation("topics by prefix", get("topics?prefix=t1&page_size=5"))
    yield Operation("routers", get("routers?page_size=5"))
    yield Operation("routers of a source", get("routers?source=t1"))
    yield Operation("a stream in the middle", lambda name: client.stream(f"{t}/events?from_seq={middle}", ""))
    yield Operation("a watch session", lambda name: watch(client, middle))
    yield Operation("delete a seq", lambda name: client.send("POST", f"{t}/delete", {"seqs": [next(seqs)]}))
    yield Operation("delete by an absent tag", delete(match=["tag", "Eq", "absent"]))
    yield Operation(
        "delete by a tag of one record", post("topics/large/delete", match=["tag", "Eq", "{name}"]), tagged(client)
    )
    yield Operation("delete by a prefix", post("topics/large/delete", match=["tag", "Glob", "{name}*"]), tagged(client))
    yield Operation(
        "delete before a seq", lambda name: client.send("POST", f"{t}/delete", {"before_seq": next(before)})
    )
    yield from changes(client)
    yield from queue(client)


def changes(client: Client) -> Iterator[Operation]:
    """Configs that remove records, and a copy of what another server lost."""

    def filled_topic(name: str) -> None:
        client.send("POST", f"/v0/topics/{name}", {"records": [{"data": n} for n in range(10)]})

    def put(**config: Any) -> Work:
        return lambda name: client.send("PUT", f"/v0/topics/{name}", config)

    def copied(name: str) -> None:
        records = [{"$seq": seq, "$ts": 1, "data": seq} for seq in range(3, 6)]
        client.send("POST", f"/v0/topics/{name}", {"copy": True, "records": records, "earliest_seq": 3})

    yield Operation("lower a cap", put(cap_records=2), filled_topic)
    yield Operation("set a TTL", put(ttl_ms=60_000), filled_topic)
    yield Operation("seal a topic", put(sealed=True), filled_topic)
    yield Operation("copy a loss of the source", copied, put(sealed=True))


def watch(client: Client, seq: int) -> None:
    made = client.send("POST", "/v0/watch", {"topics": {"large": {"from_seq": seq}, "t1": {"from_seq": 0}}})
    client.stream(f"/v0/watch/{made['wid']}", "")


def tagged(client: Client) -> Work:
    return lambda name: client.send("POST", "/v0/topics/large", {"records": [{"data": 1, "tag": name}]})


def queue(client: Client) -> Iterator[Operation]:
    """The queue with the backlog, of which a quarter is in flight."""
    held: dict[str, list[int]] = {}

    def claim(name: str) -> None:
        found = client.send("POST", "/v0/topics/jobs/claim", {"node": name, "max": 5})
        held[name] = [job["$seq"] for job in found["claimed"]]
        assert held[name], "no job is ready"

    def settle(verb: str, **more: Any) -> Work:
        return lambda name: client.send(
            "POST", f"/v0/topics/jobs/{verb}", {"node": name, "seqs": held[name][:1], **more}
        )

    yield Operation("claim 5 jobs of the backlog", claim)
    yield Operation("ack a job of the backlog", settle("ack"), claim)
    yield Operation("nack a job of the backlog", settle("nack"), claim)
    yield Operation("extend a job of the backlog", settle("extend", lease_ms=60_000), claim)
    yield Operation("figures of the backlog", lambda name: client.send("GET", "/v0/topics/jobs"))
    yield Operation("append a job", lambda name: client.send("POST", "/v0/topics/jobs", {"records": [{"data": 1}]}))
    yield Operation("work on the backlog", lambda name: client.stream(f"/v0/topics/jobs/work?node={name}", ""))


# -- the bus ------------------------------------------------------------------------------------------------------------------


def bus(client: Client) -> Iterator[Operation]:
    """Each endpoint of the bus. `subscriber` and `subscription` are two names of one."""
    tokens: dict[str, str] = {}
    callback = "https://127.0.0.1:1/events"

    def letters(name: str) -> str:
        return "t_" + "".join(chr(ord("a") + int(digit)) for digit in name if digit.isdigit())

    def make(name: str) -> None:
        tokens[name] = client.bus("POST", "/api_tokens", {"name": name})["token"]
        client.bus("POST", f"/topics/{letters(name)}", {"type": "create", "url": "https://shop/1"}, tokens[name])
        wanted = {"topics": [letters(name)], "callback": callback, "uuid": "me"}
        client.bus("POST", "/subscription", wanted, tokens[name])

    def call(method: str, path: str, body: Any = None, own: bool = False) -> Work:
        def work(name: str) -> None:
            values = {"topic": letters(name), "name": name, "token": tokens.get(name, "")}
            token = tokens[name] if own else ROOT
            client.bus(method, filled(path, **values), filled(body, **values), token)

        return work

    event = {"type": "create", "url": "https://shop/2"}
    wanted = {"topics": ["{topic}"], "callback": callback, "uuid": "me"}
    calls: dict[str, Work] = {
        "list_tokens": call("GET", "/api_tokens"),
        "add_token": call("POST", "/api_tokens", {"name": "{name}-more"}),
        "delete_token": call("DELETE", "/api_tokens/{token}"),
        "bus_topics": call("GET", "/topics"),
        "publish": call("POST", "/topics/{topic}", event, own=True),
        "delete_bus_topic": call("DELETE", "/topics/{topic}", own=True),
        "subscribe": call("POST", "/subscription", wanted, own=True),
        "subscribe to a new topic": call("POST", "/subscription", wanted | {"topics": ["{topic}_new"]}, own=True),
        "unsubscribe_all": call("DELETE", "/subscriber", own=True),
        "subscriptions": call("GET", "/subscriptions"),
        "unsubscribe": call("DELETE", "/subscriber/topics/{topic}", own=True),
        "unsubscribe_client": call("DELETE", "/subscribers/{name}"),
        "pulse": call("GET", "/pulse"),
        "pulse/scaling": call("GET", "/pulse/scaling"),
    }
    for id, work in calls.items():
        yield Operation(f"bus: {id}", work, make)
