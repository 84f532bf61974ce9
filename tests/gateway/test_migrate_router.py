"""MigrateRouter: a topic moves to another server while clients append, read, delete and watch, and no client notices."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from tests.deadlines import DEADLINE
from tests.deep import make_deep
from tests.gateway.running import Client, Running, cluster, route
from tests.gateway.spellings import ENCODED, ENCODED_APPENDS
from tests.gateway.streams import Stream
from tests.groups.member import session_of
from tests.instances import ROOT, Instance, start, until
from tests.preloaded import run

pytestmark = pytest.mark.deep(93)


Servers = tuple[Instance, Instance]
Gateways = Callable[..., Running]
Direct = Callable[[Instance], Client]
Streams = Callable[..., Stream]


def migrating(old: int, new: int, *topics: str) -> dict[str, Any]:
    return {
        "clusterDefinitions": [cluster("old", old), cluster("new", new)],
        "routerDefinitions": [
            {
                "name": "moving",
                "type": "MigrateRouter",
                "config": {"from": "old", "to": "new", "topics": list(topics)},
                "routes": [route("old", 0, cluster="old"), route("new", 1, cluster="new")],
            }
        ],
        "virtualClusters": [{"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"router": "moving"}}],
    }


def command(gateway: Running, topic: str, *options: str) -> list[str]:
    return [sys.executable, str(ROOT / "manage.py"), "gateway", "migrate", str(gateway.file), topic, *options]


def migrate(gateway: Running, topic: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run(command(gateway, topic, *options))


def shown(client: Client, topic: str) -> list[dict[str, Any]]:
    """Every record that an address shows, by diff."""
    records, from_seq = list[dict[str, Any]](), 0
    while True:
        page = client.post(f"/v0/topics/{topic}/diff", {"from_seq": from_seq, "limit": 1000, "include_tags": True}).json
        records += page["records"]
        if page["caught_up"]:
            return records
        from_seq = page["next_from_seq"]


class Writers:
    """Clients that append without a pause. `acked`: the data of each acknowledged record by its seq."""

    def __init__(self, gateways: list[Running], topic: str) -> None:
        self.gateways, self.topic = gateways, topic
        self.acked: dict[int, str] = {}
        self.doubled: list[int] = []
        self.refused: list[str] = []
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.write, args=(number,)) for number in range(4)]

    def __enter__(self) -> Writers:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def write(self, number: int) -> None:
        client, turn = self.gateways[number % len(self.gateways)].client(), 0
        while not self.stopping.is_set():
            turn += 1
            data = f"{number}:{turn}"
            more = {"idempotency_key": f"{self.topic}:{data}"} if number % 2 else {}
            answer = client.append(self.topic, data, **more)
            with self.lock:
                if answer.status not in (200, 201):
                    self.refused.append(f"{answer.status} {answer.body!r}")
                elif (seq := answer.json["first_seq"]) in self.acked:
                    self.doubled.append(seq)
                else:
                    self.acked[seq] = data
            if number % 2 and turn % 7 == 0:  # a retry that may come after the move
                again = client.append(self.topic, data, **more)
                assert again.status == 200, again.body
                assert (again.json["deduped"], again.json["first_seq"]) == (True, answer.json["first_seq"])

    def wait_for(self, number: int) -> None:
        until(lambda: len(self.acked) >= number, f"{number} acknowledged appends")


@pytest.mark.guarantee("G2")
def test_a_topic_moves_under_writers_readers_and_watchers(
    two_servers: Servers, gateways: Gateways, streams: Streams, direct: Direct, name: str
) -> None:
    old, new = two_servers
    stays = f"{name}-stays"
    configuration = migrating(old.port, new.port, name)
    both = [gateways(configuration), gateways(configuration)]
    client = both[0].client()
    assert client.append(name, "first").status == 201
    assert client.append(stays, "first").status == 201
    wid = client.post("/v0/watch", {"topics": {name: {}, stays: {}}, "heartbeat_ms": 1000}).json["wid"]
    watching, events = streams(both[0], f"/v0/watch/{wid}"), streams(both[1], f"/v0/topics/{name}/events")
    with Writers(both, name) as writers:
        writers.wait_for(200)
        done = migrate(both[0], name)
        assert done.returncode == 0, done.stderr
        assert re.search(r"moved at seq [\d,]+\. Writers waited for \d+ ms\n$", done.stdout), done.stdout
        moved_at = len(writers.acked)
        writers.wait_for(moved_at + 200)
    assert (writers.refused, writers.doubled) == ([], [])
    writers.acked[1] = "first"
    assert {each["$seq"]: each["data"] for each in shown(client, name)} == writers.acked
    fresh = direct(new)
    assert {each["$seq"]: each["data"] for each in shown(fresh, name)} == writers.acked
    assert fresh.get(f"/v0/topics/{name}").json["config"]["sealed"] is False
    assert direct(old).append(name, "late").code == "topic_sealed"
    # The streams have not ended, and have shown each record once and in order.
    client.append(stays, "last")
    seen, last = list[int](), None
    while last != "last" or len(seen) < len(writers.acked):
        told = watching.event("record")
        if told["topic"] == name:
            seen += [each["$seq"] for each in told["records"]]
        else:
            last = told["records"][-1]["data"]
    assert seen == sorted(writers.acked)
    heard = [events.event("message")["$seq"]]
    while heard[-1] < max(writers.acked):
        heard.append(events.event("message")["$seq"])
    assert heard == [seq for seq in sorted(writers.acked) if seq >= heard[0]]
    assert [each["topic"] for each in client.get(f"/v0/topics?prefix={name}").json["topics"]] == [name, stays]
    again = migrate(both[0], name)
    assert (again.returncode, "moved at seq" in again.stdout) == (0, True)


def test_a_watch_goes_on_at_its_last_id_on_the_other_server(
    two_servers: Servers, gateways: Gateways, streams: Streams, name: str
) -> None:
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    client = gateway.client()
    client.append(name, *range(10))
    client.append(f"{name}-b", "b")
    options = {"include_tags": True, "heartbeat_ms": 1000}
    wid = client.post("/v0/watch", {"topics": {name: {"from_seq": 4}, f"{name}-b": {}}, **options}).json["wid"]
    unseen = client.post("/v0/watch", {"topics": {name: {"from_seq": 6}}, **options}).json["wid"]
    with_id = streams(gateway, f"/v0/watch/{wid}")
    assert with_id.records(7)[name] == list(range(4, 10))
    with_id.event("caught-up")
    with_id.close()
    assert migrate(gateway, name).returncode == 0
    until(lambda: client.append(name, "new").status == 200, "an append at the new server")
    stream = streams(gateway, f"/v0/watch/{wid}", f"Last-Event-ID: {with_id.id}")
    assert stream.records(1)[name] == ["new"]
    assert streams(gateway, f"/v0/watch/{unseen}").records(5)[name] == [6, 7, 8, 9, "new"]


def test_events_keep_their_match_on_the_other_server(
    two_servers: Servers, gateways: Gateways, streams: Streams, name: str
) -> None:
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    client = gateway.client()

    def append(number: int) -> int:
        records = [{"data": f"{tag} {number}", "tag": tag} for tag in ("theirs", "mine")]
        return client.post(f"/v0/topics/{name}", {"records": records}).status

    assert append(1) == 201
    stream = streams(gateway, f"/v0/topics/{name}/events?match=mine&from_seq=0")
    assert stream.event("message")["data"] == "mine 1"
    assert migrate(gateway, name).returncode == 0
    assert append(2) == 200
    assert stream.event("message")["data"] == "mine 2"


@pytest.mark.guarantee("G2")
def test_a_stream_of_a_gateway_that_has_not_seen_the_move_goes_on_at_the_other_server(
    two_servers: Servers, gateways: Gateways, streams: Streams, name: str
) -> None:
    """Its last id is above the head of the source, so the source would begin the stream again."""
    old, new = two_servers
    configuration = migrating(old.port, new.port, *(f"{name}-{number}" for number in range(100)), name)
    first, late = gateways(configuration), gateways(configuration)
    client = first.client()
    client.append(name, 1, 2)
    assert migrate(first, name).returncode == 0
    until(lambda: client.append(name, 3).status == 200, "an append at the new server")
    late.kill()
    late.start(ready=False)  # it looks at one topic after the other

    def begun() -> Stream | None:
        try:
            return streams(late, f"/v0/topics/{name}/events", f"last-event-id: {name}:3")
        except (OSError, EOFError):
            return None

    stream = until(begun, "the gateway to start", tick=0.001)
    assert client.append(name, "next").status == 200
    told = stream.event("message", "stream-reset")
    assert (told.get("$seq"), told.get("data")) == (4, "next")


def test_encoded_calls_go_to_the_new_server_once_the_topic_has_moved(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    client = gateway.client()
    client.append(name, "before")
    assert migrate(gateway, name).returncode == 0
    left = shown(direct(old), name)
    for spelling in ENCODED_APPENDS:
        assert client.post(spelling.format(name), {"records": [{"data": spelling}]}).status == 200
    for spelling in ENCODED:
        records = client.get(spelling.format(name)).json["records"]
        assert [each["data"] for each in records] == ["before", *ENCODED_APPENDS]
    assert [each["data"] for each in shown(direct(new), name)] == ["before", *ENCODED_APPENDS]
    assert shown(direct(old), name) == left


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("seed", range(2))
def test_a_move_goes_on_after_kills(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str, seed: int
) -> None:
    old, new = two_servers
    chance = random.Random(seed)
    gateway = gateways(migrating(old.port, new.port, name))
    client = gateway.client()
    for _ in range(10):
        client.append(name, *(["x" * 200] * 1000))
    until(lambda: client.get(f"/v0/topics/{name}").json["head_seq"] == 10_000, "the records")
    with Writers([gateway], name) as writers:
        for _ in range(4):
            run = subprocess.Popen(command(gateway, name), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.5, 1.6))
            run.send_signal(signal.SIGKILL)
            run.wait()
        done = migrate(gateway, name)
        assert done.returncode == 0, done.stderr
        writers.wait_for(len(writers.acked) + 50)
    assert writers.doubled == []
    assert writers.refused == []
    records = shown(direct(new), name)
    assert [each["$seq"] for each in records] == list(range(1, 10_001 + len(writers.acked)))
    assert {each["$seq"]: each["data"] for each in records[10_000:]} == writers.acked


def test_configurations_change_one_gateway_after_the_other_during_a_move(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    """The command is killed twice meanwhile. Before the move, one gateway has a configuration without it."""
    old, new = two_servers
    both = [gateways(migrating(old.port, new.port, name)), gateways(migrating(old.port, new.port))]
    stopping = threading.Event()

    def change() -> None:
        for turn in count():
            gateway = both[turn % 2]
            gateway.write(migrating(old.port, new.port, name, f"{name}-{turn}"))
            gateway.signal(signal.SIGHUP)
            if stopping.wait(0.3):
                return

    both[0].client().append(name, "first")
    with Writers(both, name) as writers:
        writers.wait_for(50)
        both[1].write(migrating(old.port, new.port, name))
        both[1].signal(signal.SIGHUP)
        until(lambda: both[1].client().get(f"/v0/topics/{name}/groups").status == 501, "the configuration")
        changing = threading.Thread(target=change)
        changing.start()
        try:
            for seconds in (0.6, 1.0):
                killed = subprocess.Popen(command(both[0], name), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(seconds)
                killed.kill()
                killed.wait()
            done = migrate(both[0], name)
            assert done.returncode == 0, done.stderr
            writers.wait_for(len(writers.acked) + 100)
        finally:
            stopping.set()
            changing.join()
    assert (writers.refused, writers.doubled) == ([], [])
    writers.acked[1] = "first"
    assert {each["$seq"]: each["data"] for each in shown(direct(new), name)} == writers.acked


def test_a_gateway_ends_a_move_whose_command_died(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    """The command is killed while writers wait: both topics are sealed."""
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    client = gateway.client()
    client.append(name, 1)
    config = client.get(f"/v0/topics/{name}").json["config"]
    assert direct(new).call("PUT", f"/v0/topics/{name}", {**config, "sealed": True}).status == 201
    assert direct(old).call("PUT", f"/v0/topics/{name}", {"sealed": True}).status == 200
    answer = until(
        lambda: each if (each := client.append(name, 2)).status == 200 else None, "the gateway to finish", 60
    )
    assert answer.json["first_seq"] == 2
    assert [each["data"] for each in shown(direct(new), name)] == [1, 2]
    assert "This gateway finishes the move" in gateway.output


def test_a_cursor_that_changes_while_writers_wait_has_changed_once(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    kept, dropped = (f"/v0/topics/{name}/cursors/{each}" for each in ("kept", "dropped"))
    client = gateway.client()
    client.append(name, *range(12))
    for cursor in (kept, dropped):
        assert client.call("PUT", cursor, {"seq": 5}).status == 201
    config = client.get(f"/v0/topics/{name}").json["config"]
    assert direct(new).call("PUT", f"/v0/topics/{name}", {**config, "sealed": True}).status == 201
    assert direct(old).call("PUT", f"/v0/topics/{name}", {"sealed": True}).status == 200
    with ThreadPoolExecutor() as pool:  # the gateway finishes the move meanwhile
        moved = pool.submit(gateway.client().call, "PUT", kept, {"seq": 10, "expected_seq": 5})
        deleted = pool.submit(gateway.client().call, "DELETE", dropped)
    assert (moved.result().status, moved.result().json["seq"]) == (200, 10)
    assert (deleted.result().status, deleted.result().json["deleted"]) == (200, True)
    assert "topics-sealed" not in moved.result().headers
    assert direct(new).get(kept).json["seq"] == 10
    assert direct(new).get(dropped).status == 404


def test_a_move_is_taken_back_until_the_topic_has_moved(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    client = gateway.client()
    client.append(name, 1, 2)
    run = subprocess.Popen(command(gateway, name, "--mirror"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(
        lambda: len(shown(direct(new), name)) == 2 if new.get(f"/v0/topics/{name}")[0] == 200 else False,
        "the copy",
    )
    client.append(name, 3)
    until(lambda: len(shown(direct(new), name)) == 3, "the copy to follow")
    assert direct(new).append(name, "stranger").code == "topic_sealed"
    run.send_signal(signal.SIGINT)
    assert run.wait(DEADLINE) == 1
    back = migrate(gateway, name, "--back")
    assert (back.returncode, back.stdout) == (
        0,
        f"{name}: the move was taken back; the topic stays on the route 'old'\n",
    )
    assert new.get(f"/v0/topics/{name}")[0] == 404
    assert client.append(name, 4).json["first_seq"] == 4
    assert migrate(gateway, name).returncode == 0
    refused = migrate(gateway, name, "--back")
    assert (refused.returncode, "a move can end only before its flip" in refused.stderr) == (1, True)


def test_a_record_from_before_the_bound_for_the_depth_moves(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    for number in range(3):
        gateway.client().append(name, number)
    make_deep(old, name)
    assert migrate(gateway, name).returncode == 0
    assert shown(direct(new), name) == shown(direct(old), name)


def test_what_was_deleted_or_lost_is_not_in_the_copy(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    client = gateway.client()
    client.call("PUT", f"/v0/topics/{name}", {"cap_records": 2000})
    records = [{"data": number, "tag": f"t:{number % 10}", "node": f"n{number % 3}"} for number in range(2500)]
    client.post(f"/v0/topics/{name}", {"records": records})
    client.post(f"/v0/topics/{name}/delete", {"match": ["tag", "Eq", "t:3"]})
    client.call("PUT", f"/v0/topics/{name}/cursors/reader", {"seq": 1700})
    run = subprocess.Popen(command(gateway, name, "--mirror"), stdout=subprocess.DEVNULL)
    until(lambda: '"head_seq":2500' in new.get(f"/v0/topics/{name}")[1], "the copy")
    run.kill()
    run.wait()
    client.post(f"/v0/topics/{name}/delete", {"match": ["tag", "Eq", "t:4"]})  # the gateway passes it on
    for body in ({"before_seq": 520, "seqs": None}, {"seqs": [1001], "match": None}):  # these, too
        assert client.post(f"/v0/topics/{name}/delete", body).json["deleted"] > 0
    assert direct(old).post(f"/v0/topics/{name}/delete", {"match": ["tag", "Eq", "t:5"]}).status == 200  # nobody does
    before, page = shown(client, name), client.post(f"/v0/topics/{name}/diff", {"from_seq": 100}).json
    assert migrate(gateway, name).returncode == 0
    until(lambda: client.get(f"/v0/topics/{name}/cursors/reader").status == 200, "the new server to be asked")
    assert shown(direct(new), name) == before == shown(client, name)
    after = client.post(f"/v0/topics/{name}/diff", {"from_seq": 100}).json
    assert after["tombstone"]["gap_to"] == page["tombstone"]["gap_to"]
    assert direct(new).get(f"/v0/topics/{name}/cursors/reader").json["seq"] == 1700
    fields = ("head_seq", "earliest_seq", "count", "bytes", "config")
    sides = [direct(server).get(f"/v0/topics/{name}").json for server in (old, new)]
    sides[0]["config"]["sealed"] = False
    assert [sides[0][field] for field in fields] == [sides[1][field] for field in fields]


def test_settings_of_a_put_reach_the_copy_without_caps(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    old, new = two_servers
    client, path = gateways(migrating(old.port, new.port, name)).client(), f"/v0/topics/{name}"
    client.append(name, 1)
    config = client.get(path).json["config"]
    assert direct(new).call("PUT", path, {**config, "sealed": True}).status == 201
    changes = {"cap_records": 1, "cap_bytes": 1000, "ttl_ms": 3_600_000}
    assert client.call("PUT", path, changes).status == 200
    assert direct(old).get(path).json["config"] == config | changes
    assert direct(new).get(path).json["config"] == config | {"sealed": True, "ttl_ms": 3_600_000}


def test_what_would_interfere_with_a_move_is_refused(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name, f"{name}-routed"))
    client = gateway.client()
    client.append(name, 1)
    assert client.call("DELETE", f"/v0/topics/{name}").code == "being_moved"
    assert client.call("PUT", "/v0/routers/r", {"source": name, "dest": f"{name}-copy"}).code == "being_moved"
    assert client.call("PUT", f"/v0/topics/{name}", {"sealed": True}).code == "invalid_request"
    router = {"source": f"{name}-routed", "dest": f"{name}-dest"}
    assert direct(old).call("PUT", f"/v0/routers/{name}-r", router).status == 201
    refused = migrate(gateway, f"{name}-routed")
    assert refused.returncode == 1
    assert f"the router '{name}-r' of the server has '{name}-routed' as its source" in refused.stderr
    unknown = migrate(gateway, "elsewhere")
    assert (unknown.returncode, "no MigrateRouter has the topic 'elsewhere'" in unknown.stderr) == (1, True)
    assert direct(new).append(name, "other").status == 201
    taken = migrate(gateway, name)
    assert (taken.returncode, "is not sealed, and no copy" in taken.stderr) == (1, True)


def test_a_topic_that_its_operator_sealed_stays_sealed(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    old, new = two_servers
    client = gateways(migrating(old.port, new.port, name)).client()
    client.append(name, 1)
    assert direct(old).call("PUT", f"/v0/topics/{name}", {"sealed": True}).status == 200
    assert client.append(name, 2).code == "topic_sealed"
    assert [each["data"] for each in shown(client, name)] == [1]


def test_servers_that_are_killed_lose_nothing_of_a_move(gateways: Gateways, direct: Direct, name: str) -> None:
    with start() as old, start() as new:
        gateway = gateways(migrating(old.port, new.port, name))
        client = gateway.client()
        client.call("PUT", f"/v0/topics/{name}", {"durability": "fsync"})
        acked = dict[int, int]()
        stopping = threading.Event()

        def write() -> None:
            writer, number = gateway.client(), 0
            while not stopping.is_set():
                number += 1
                answer = writer.append(name, number, idempotency_key=f"{name}-{number}")
                while answer.status >= 500 and not stopping.is_set():
                    time.sleep(0.1)
                    answer = writer.append(name, number, idempotency_key=f"{name}-{number}")
                if answer.status in (200, 201):
                    assert answer.json["first_seq"] not in acked
                    acked[answer.json["first_seq"]] = number

        writer = threading.Thread(target=write)
        writer.start()
        try:
            until(lambda: len(acked) > 100, "appends")
            run = subprocess.Popen(
                command(gateway, name, "--mirror"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            for server in (new, old):
                until(lambda: new.is_ready() and new.get(f"/v0/topics/{name}")[0] == 200, "the copy", 60)
                server.kill()
                server.start()
            run.kill()
            run.wait()
            until(lambda: migrate(gateway, name).returncode == 0, "the move", 120)
            moved = len(acked)
            until(lambda: len(acked) > moved + 50, "appends at the new server", 60)
        finally:
            stopping.set()
            writer.join()
        records = {each["$seq"]: each["data"] for each in shown(direct(new), name)}
        assert {seq: number for seq, number in acked.items() if records.get(seq) != number} == {}
        assert len(set(records.values())) == len(records)
        assert json.loads(new.get(f"/v0/topics/{name}")[1])["count"] == len(records)


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("records", [60, 150])
def test_a_copy_of_another_log_is_refused(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str, records: int
) -> None:
    """The topic was deleted and made again behind the copy, with a head below the copy's head or above it."""
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    client = gateway.client()
    client.append(name, *range(100))
    mirror = subprocess.Popen(command(gateway, name, "--mirror"), stdout=subprocess.DEVNULL)
    until(lambda: '"head_seq":100' in new.get(f"/v0/topics/{name}")[1], "the copy")
    mirror.kill()
    mirror.wait()
    assert direct(old).call("DELETE", f"/v0/topics/{name}?keep_head=false").status == 200
    client.append(name, *range(records))  # the same data at the same seqs, at another time
    for options in ((), ("--mirror",)):
        refused = migrate(gateway, name, *options)
        assert refused.returncode == 1
        assert "is a copy of another log" in refused.stderr
        assert "--back" in refused.stderr
    assert [each["data"] for each in shown(client, name)] == list(range(records))
    assert client.append(name, "more").status == 200
    assert migrate(gateway, name, "--back").returncode == 0
    assert migrate(gateway, name).returncode == 0
    assert [each["data"] for each in shown(direct(new), name)] == [*range(records), "more"]


def test_a_gateway_does_not_finish_a_move_to_a_copy_of_another_log(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    client, source, dest = gateway.client(), direct(old), direct(new)
    client.append(name, 1, 2)
    assert dest.call("PUT", f"/v0/topics/{name}", {"sealed": True}).status == 201
    assert dest.post(f"/v0/topics/{name}", {"copy": True, "records": [{"$seq": 2, "$ts": 1, "data": 2}]}).status == 200
    assert source.call("PUT", f"/v0/topics/{name}", {"sealed": True}).status == 200
    until(lambda: "is a copy of another log" in gateway.output, "the gateway's refusal", 60)
    assert dest.get(f"/v0/topics/{name}").json["config"]["sealed"] is True
    assert migrate(gateway, name, "--back").returncode == 0
    assert client.append(name, 3).status == 200


def test_a_copy_whose_last_records_the_source_deleted_is_the_same_log(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    """Also with times that fell at the source: a copy gives such records the time of the record before."""
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    client = gateway.client()
    client.append(name, *range(10))
    records = client.post(f"/v0/topics/{name}/diff", {}).json["records"]
    records[-1] |= {"$ts": records[-1]["$ts"] + 1}
    assert direct(new).call("PUT", f"/v0/topics/{name}", {"sealed": True}).status == 201
    assert direct(new).post(f"/v0/topics/{name}", {"copy": True, "records": records}).status == 200
    client.post(f"/v0/topics/{name}/delete", {"seqs": [9]})
    moved = migrate(gateway, name)
    assert moved.returncode == 0, moved.stderr
    assert [each["data"] for each in shown(direct(new), name)] == [0, 1, 2, 3, 4, 5, 6, 7, 9]


def test_a_key_for_each_record_is_known_after_the_move(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    client = gateway.client()
    before = {"records": [{"data": "P1"}, {"data": "P2"}], "idempotency_keys": ["p-1", "p-2"]}
    after = {"records": [{"data": "P2"}, {"data": "P3"}], "idempotency_keys": ["p-2", "p-3"]}
    client.post(f"/v0/topics/{name}", before)
    client.append(name, "whole", idempotency_key="the-whole-append-1")
    assert migrate(gateway, name).returncode == 0
    answer = until(
        lambda: each if (each := client.post(f"/v0/topics/{name}", after)).status == 200 else None, "the append"
    )
    assert (answer.json["seqs"], answer.json["deduplicated"]) == ([2, 4], [0])
    assert client.append(name, "whole", idempotency_key="the-whole-append-1").json["deduped"] is True
    assert client.get(f"/v0/topics/{name}/appends?key_prefix=the-whole-append").json["last"]["first_seq"] == 3
    assert [each["data"] for each in shown(direct(new), name)] == ["P1", "P2", "whole", "P3"]


@pytest.mark.guarantee("G2")
def test_groups_schedules_and_leases_move(
    two_servers: Servers, gateways: Gateways, direct: Direct, streams: Streams, name: str
) -> None:
    old, new = two_servers
    jobs, letters = f"{name}-jobs", f"{name}-letters"
    gateway = gateways(migrating(old.port, new.port, name, jobs, letters))
    client, source, dest = gateway.client(), direct(old), direct(new)
    client.append(name, *range(20))
    session = session_of(old.port, name, "g")
    owned = source.get(f"/v0/topics/{name}/groups/g").json["shares"]
    shares = [{"share": each["share"], "generation": each["generation"], "seq": 20} for each in owned if each["member"]]
    committed = source.post(f"/v0/topics/{name}/groups/g/commit", {"session": session, "shares": shares})
    assert committed.status == 200, committed.body
    client.append(letters, "letter")
    client.call("PUT", f"/v0/topics/{jobs}", {"type": "queue", "dead_letter": letters})
    client.append(jobs, "held", "delayed", "ready")
    held = client.post(f"/v0/topics/{jobs}/claim", {"node": "w", "max": 2, "lease_ms": 600_000}).json["claimed"]
    assert client.post(f"/v0/topics/{jobs}/nack", {"node": "w", "seqs": [2], "delay_ms": 600_000}).status == 200
    assert source.call("PUT", f"/v0/topics/{jobs}/schedules/s", {"not_before": 2**42, "data": 1}).status == 201
    refused = migrate(gateway, jobs)
    assert f"its dead letter topic '{letters}' is not on the route 'new'" in refused.stderr
    assert source.get(f"/v0/topics/{jobs}").json["config"]["sealed"] is False
    working = streams(gateway, f"/v0/topics/{jobs}/work?node=v")
    assert working.event("job")["data"] == "ready"
    for topic in (letters, name, jobs):
        moved = migrate(gateway, topic)
        assert moved.returncode == 0, moved.stderr
        if topic == letters:
            until(lambda: client.append(letters, "later").status == 200, "an append at the new server")
            elsewhere = client.call("PUT", f"/v0/topics/{name}-other", {"type": "queue", "dead_letter": letters})
            assert (elsewhere.status, elsewhere.code) == (400, "invalid_request")
    assert working.event("error")["code"] == "shutting_down"
    assert not working.ends_cleanly()
    group = dest.get(f"/v0/topics/{name}/groups/g").json
    assert {each["seq"] for each in group["shares"]} == {20}
    assert dest.get(f"/v0/topics/{jobs}/schedules/s").json["next_ts"] == 2**42
    assert source.get(f"/v0/topics/{jobs}/schedules").json["schedules"] == []
    assert client.post(f"/v0/topics/{jobs}/claim", {"node": "x", "max": 10}).json["claimed"] == []
    acked = {"node": "w", "seqs": [1], "lease_ids": [held[0]["lease_id"]]}
    assert client.post(f"/v0/topics/{jobs}/ack", acked).json["acked"] == 1
    counts = dest.get(f"/v0/topics/{jobs}").json["queue"]
    assert (counts["in_flight"], counts["delayed"], counts["ready"]) == (1, 1, 0)


def test_workers_wait_while_the_last_jobs_are_copied(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    """The command is killed while both queues are sealed, and a gateway finishes the move."""
    old, new = two_servers
    gateway = gateways(migrating(old.port, new.port, name))
    client = gateway.client()
    client.call("PUT", f"/v0/topics/{name}", {"type": "queue"})
    client.append(name, 1, 2)
    config = client.get(f"/v0/topics/{name}").json["config"]
    assert direct(new).call("PUT", f"/v0/topics/{name}", {**config, "sealed": True}).status == 201
    assert direct(old).call("PUT", f"/v0/topics/{name}", {"sealed": True}).status == 200
    answer = client.post(f"/v0/topics/{name}/claim", {"node": "w", "max": 2})
    while answer.status == 503:  # a loaded machine
        answer = client.post(f"/v0/topics/{name}/claim", {"node": "w", "max": 2})
    assert [each["data"] for each in answer.json["claimed"]] == [1, 2]


def test_a_topic_with_a_reader_of_its_server_does_not_move(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    old, new = two_servers
    topic = f"bus:{name.replace('-', '_')[:20]}"
    gateway = gateways(migrating(old.port, new.port, topic))
    source = direct(old)
    assert source.call("PUT", f"/v0/topics/{topic}", {}).status == 201
    with old.connect() as connection:
        connection.execute(
            "INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)"
            " SELECT id, 'subscription', 'shop', 0, 0, 0 FROM topics_topic WHERE name = %s",
            [topic],
        )
    refused = migrate(gateway, topic)
    assert (refused.returncode, "the subscription 'shop' of the server reads" in refused.stderr) == (1, True)
    assert new.get(f"/v0/topics/{topic}")[0] == 404
