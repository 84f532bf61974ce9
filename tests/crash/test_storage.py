"""The crash harness compares the log from all sides, and finds stored records that no topic shows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.crash.harness import storage
from tests.crash.harness.client import Client
from tests.crash.harness.evidence import Evidence
from tests.crash.harness.oracle import judge
from tests.crash.harness.topology import DROP, KEEP, Router, Topic, Topology, Written
from tests.instances import Instance

NOBODY = 2**40  # the id of a topic that never was


@pytest.fixture
def client(server: Instance) -> Iterator[Client]:
    client = Client(server.port)
    yield client
    client.close()


@pytest.fixture
def connection(server: Instance) -> Iterator[psycopg.Connection[Any]]:
    with server.connect() as connection:
        yield connection
        connection.execute("DELETE FROM topics_record WHERE topic_id = %s", [NOBODY])
        connection.execute("DELETE FROM topics_span WHERE topic_id = %s", [NOBODY])


def test_a_topic_and_its_copy_look_alike_from_all_sides(client: Client, connection: psycopg.Connection[Any]) -> None:
    source, dest = (f"crash-{uuid.uuid4().hex[:8]}" for _ in range(2))
    topology = Topology(
        {source: Topic(source, "fsync", written="plain"), dest: Topic(dest)}, [Router(dest, source, dest, once=True)]
    )
    evidence = Evidence(topology)
    for topic in topology.topics.values():
        assert client.call("PUT", f"/v0/topics/{topic.name}", topic.config).status == 201
    for router in topology.routers:
        assert client.call("PUT", f"/v0/routers/{router.name}", router.config).status == 201
    for number in range(20):
        pair = [Written(source, "0", number, place, 2, (KEEP, DROP)[place], "left") for place in range(2)]
        records = [{"data": record.data(), "tag": record.tag, "node": record.node} for record in pair]
        assert client.call("POST", f"/v0/topics/{source}", {"records": records}).status == 200
    for topic in topology.topics.values():
        log = storage.read_log(client, connection, evidence, topic)
        assert (log.head_seq, log.count, len(log.records), len(log.sql_records)) == (40, 40, 40, 40)
    assert judge(evidence) == []


def test_a_record_that_nothing_shows_is_seen(connection: psycopg.Connection[Any]) -> None:
    connection.execute(
        "INSERT INTO topics_record (topic_id, seq, ts, total, size, volatile, data) VALUES (%s, 7, 0, 1, 1, false, '1')",
        [NOBODY],
    )
    assert f"1 records of topic {NOBODY}, from seq 7 on, are shown by none" in storage.look_for_leftovers(connection)


def test_a_span_of_no_topic_is_seen(connection: psycopg.Connection[Any]) -> None:
    connection.execute(
        "INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,"
        " keep_tag, path) VALUES (%s, 3, 5, %s, 1, 3, 0, true, true, true, '{}')",
        [NOBODY, NOBODY],
    )
    assert f"1 spans of deleted topic {NOBODY}, from seq 3 on, lie below its floor" in storage.look_for_leftovers(
        connection
    )


def test_a_cursor_beyond_the_head_is_seen(client: Client, connection: psycopg.Connection[Any]) -> None:
    name = f"crash-{uuid.uuid4().hex[:8]}"
    assert client.call("POST", f"/v0/topics/{name}", {"records": [{"data": 1}]}).status == 201
    assert client.call("PUT", f"/v0/topics/{name}/cursors/{name}", {"seq": 1}).status < 300
    assert not [what for what in storage.cursors_ahead(connection) if name in what]
    connection.execute("UPDATE topics_cursor SET seq = 9 WHERE name = %s", [name])
    assert f"the named cursor {name} of {name} stands at 9, the head is 1" in storage.cursors_ahead(connection)
