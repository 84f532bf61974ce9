"""The commands of a guide to routers, multi-master and nodes, in its order (docs/routers.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.shell import Answer, free, run
from tests.instances import Instance

NAMES = ("orders", "audit", "chat:general", "chat:general:mirror", "echo")
NAMES += ("orders-to-audit", "fra-to-iad", "iad-to-fra")  # routers
Sh = Callable[[str], list[Answer]]


@pytest.fixture
def sh(server: Instance, tmp_path: Path) -> Sh:
    free(NAMES, server, tmp_path)
    return lambda script: run(script, server.url, tmp_path)


def test_mirror_a_stream_into_an_audit_log(sh: Sh) -> None:
    (made,) = sh(
        """\
curl -X PUT $TOPICS/v0/routers/orders-to-audit \\
  -H 'content-type: application/json' \\
  -d '{ "source": "orders", "dest": "audit" }'"""
    )
    assert made.status == 201
    assert made.json.pop("performance")["server_total_ms"] > 0
    assert made.json == {
        "router": "orders-to-audit",
        "created": True,
        "source": "orders",
        "dest": "audit",
        "preserve_node": True,
        "preserve_tag": True,
        "filter": None,
        "allow_cycle": False,
        "guarantee": "at_least_once",
        "allow_fan_in": False,
        "paused": False,
    }
    _, read = sh(
        """\
curl $TOPICS/v0/topics/orders -H 'content-type: application/json' -d '{"node": "n1", "records": [{"data": 1}, {"data": 2}]}'
curl $TOPICS/v0/topics/audit/diff -H 'content-type: application/json' -d '{}'"""
    )
    assert [(record["$seq"], record["$node"], record["data"]) for record in read.json["records"]] == [
        (1, "n1", 1),
        (2, "n1", 2),
    ]


def test_the_multi_master_guide(sh: Sh) -> None:
    wrote = sh(
        """\
# On node api-fra-1:
curl -X POST $TOPICS/v0/topics/chat:general \\
  -H 'content-type: application/json' \\
  -d '{ "node": "api-fra-1",
        "records": [ { "data": { "from": "user-1042", "text": "hey team" } } ] }'

# On node api-iad-1:
curl -X POST $TOPICS/v0/topics/chat:general \\
  -H 'content-type: application/json' \\
  -d '{ "node": "api-iad-1",
        "records": [ { "data": { "from": "user-2087", "text": "on my way" } } ] }'"""
    )
    assert [answer.status for answer in wrote] == [201, 200]
    routers = sh(
        """\
# Router forwarding api-fra-1's topic into api-iad-1's topic:
curl -X PUT $TOPICS/v0/routers/fra-to-iad \\
  -H 'content-type: application/json' \\
  -d '{ "source": "chat:general", "dest": "chat:general:mirror", "allow_cycle": true }'

# Router forwarding api-iad-1's topic back into api-fra-1's topic (symmetric):
curl -X PUT $TOPICS/v0/routers/iad-to-fra \\
  -H 'content-type: application/json' \\
  -d '{ "source": "chat:general:mirror", "dest": "chat:general", "allow_cycle": true }'"""
    )
    assert [answer.status for answer in routers] == [201, 201]
    assert (
        routers[0].json.items()
        >= {
            "router": "fra-to-iad",
            "created": True,
            "source": "chat:general",
            "dest": "chat:general:mirror",
            "preserve_node": True,
            "preserve_tag": True,
            "filter": None,
            "allow_cycle": True,
        }.items()
    )
    read_as_fra = """\
# On node api-fra-1 — read everything, drop records api-fra-1 produced:
curl -X POST $TOPICS/v0/topics/chat:general/diff \\
  -H 'content-type: application/json' \\
  -d '{ "from_seq": 0, "node": "api-fra-1" }'"""
    (read,) = sh(read_as_fra)
    (record,) = read.json.pop("records")
    assert set(record) == {"$seq", "$ts", "$node", "data"}
    assert record["$node"] == "api-iad-1"
    assert record["data"] == {"from": "user-2087", "text": "on my way"}
    assert read.json.pop("performance")["server_total_ms"] > 0
    assert read.json == {
        "topic": "chat:general",
        "next_from_seq": 2,
        "head_seq": 2,
        "earliest_seq": 1,
        "caught_up": True,
        "tombstone": None,
        "lag": 0,
    }
    # What each node writes to its own side arrives once at the other, and nothing comes home.
    sh(
        """\
curl $TOPICS/v0/topics/chat:general -H 'content-type: application/json' -d '{"node": "api-fra-1", "records": [{"data": "of fra"}]}'
curl $TOPICS/v0/topics/chat:general:mirror -H 'content-type: application/json' -d '{"node": "api-iad-1", "records": [{"data": "of iad"}]}'"""
    )
    assert data(sh, "chat:general", "api-fra-1") == [{"from": "user-2087", "text": "on my way"}, "of iad"]
    assert data(sh, "chat:general:mirror", "api-iad-1") == ["of fra"]
    assert sorted(data(sh, "chat:general:mirror", "nobody")) == ["of fra", "of iad"]


def data(sh: Sh, topic: str, node: str) -> list[Any]:
    (read,) = sh(
        f"curl $TOPICS/v0/topics/{topic}/diff -H 'content-type: application/json' -d '{{\"node\": \"{node}\"}}'"
    )
    assert read.json["caught_up"]
    return [record["data"] for record in read.json["records"]]


def test_without_allow_cycle_the_way_back_is_refused(sh: Sh) -> None:
    _, refused = sh(
        """\
curl -X PUT $TOPICS/v0/routers/fra-to-iad -H 'content-type: application/json' -d '{ "source": "chat:general", "dest": "chat:general:mirror" }'
curl -X PUT $TOPICS/v0/routers/iad-to-fra -H 'content-type: application/json' -d '{ "source": "chat:general:mirror", "dest": "chat:general" }'"""
    )
    assert (refused.status, refused.json["error"]["code"]) == (409, "router_cycle")
    assert refused.json["error"]["detail"]["cycle"] == ["chat:general:mirror", "chat:general", "chat:general:mirror"]


def test_several_nodes_of_ones_own_and_the_live_stream(sh: Sh) -> None:
    sh(
        """\
curl $TOPICS/v0/topics/chat:general -H 'content-type: application/json' \\
  -d '{"records": [{"data": 1, "node": "api-fra-1"}, {"data": 2, "node": "api-fra-1-replica"}, {"data": 3, "node": "api-iad-1"}, {"data": 4}]}'"""
    )
    (read,) = sh(
        """\
curl $TOPICS/v0/topics/chat:general/diff -H 'content-type: application/json' \\
  -d '{"node": ["api-fra-1","api-fra-1-replica"]}'"""
    )
    assert [record["data"] for record in read.json["records"]] == [3, 4]
    (watch,) = sh(
        """\
curl -X POST $TOPICS/v0/watch \\
  -H 'content-type: application/json' \\
  -d '{ "node": "api-fra-1", "topics": { "chat:general": { "from_seq": 0 } } }'"""
    )
    assert watch.json["wid"].startswith("wid_")
    assert watch.json["topics"]["chat:general"] == {"from_seq": 0, "head_seq": 4, "earliest_seq": 1}


def test_node_loop_prevention(sh: Sh) -> None:
    wrote, read = sh(
        """\
curl -X POST $TOPICS/v0/topics/chat:general \\
  -H 'content-type: application/json' \\
  -d '{ "node": "api-fra-1",
        "records": [ { "data": { "from": "user-1042", "text": "hello" } } ] }'

# api-fra-1 reads the topic it also writes to; its own records are filtered out.
curl -X POST $TOPICS/v0/topics/chat:general/diff \\
  -H 'content-type: application/json' \\
  -d '{ "from_seq": 0, "node": "api-fra-1" }'"""
    )
    assert (wrote.status, wrote.json["seqs"]) == (201, [1])
    # Silent, and the cursor moved past it.
    shown = {name: read.json[name] for name in ("records", "next_from_seq", "caught_up", "tombstone")}
    assert shown == {"records": [], "next_from_seq": 1, "caught_up": True, "tombstone": None}


def test_the_dedupe_node_opt_out(sh: Sh) -> None:
    made, _, read = sh(
        """\
curl -X PUT $TOPICS/v0/topics/echo \\
  -H 'content-type: application/json' \\
  -d '{ "dedupe_node": false }'
curl $TOPICS/v0/topics/echo -H 'content-type: application/json' -d '{"node": "a", "records": [{"data": 1}]}'
curl $TOPICS/v0/topics/echo/diff -H 'content-type: application/json' -d '{"node": "a"}'"""
    )
    assert (made.status, made.json["config"]["dedupe_node"]) == (201, False)
    assert [record["data"] for record in read.json["records"]] == [1]
