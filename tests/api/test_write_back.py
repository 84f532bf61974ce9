"""What a GET shows can be PUT again, for every PUT of /v0: then nothing changes."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from contract.operations import Operation
from push.webhooks import webhooks
from store.script import run
from tests.api.clients import ApiClient
from tests.api.endpoints import filled
from topics_project.urls import DESCRIBED

PUTS = [each for each in Operation if any(path.method == "PUT" for path in each.paths)]
# What a GET shows beside the config, and what can differ from call to call.
MOVING = {"performance", "updated_ts", "last_read_ts", "oldest_unread_ms"}
FAR_TS = 4_000_000_000_000  # of a job that never comes within the test
EXAMPLE = "https://example.com/hooks"


class Put(NamedTuple):
    """A PUT. `bare`: only what it needs. `whole`: every field that a GET shows, each with another value than in `bare`.

    `unseen`: the fields that no GET shows, because they are of the call alone, or secret.
    """

    bare: dict[str, Any]
    whole: dict[str, Any]
    unseen: tuple[str, ...] = ()


WHOLE_TOPIC = {
    "type": "queue", "ttl_ms": 3_600_000, "cap_records": 10, "cap_bytes": 1_000, "discard": "reject", "durability": "fsync",
    "durable": True, "priority": 7, "auto_priority": False, "auto_create": False, "idempotency_window_ms": 5,
    "dedupe_node": False, "numbers": "double", "lease_ms": 100, "claim_jitter_ms": 2, "max_deliveries": 3,
    "dead_letter": "{topic}-dead", "leases_durable": True, "unique_tags": True, "sealed": True,
}  # fmt: skip
WHOLE_ROUTER = {
    "source": "{topic}-a", "dest": "{topic}-b", "preserve_node": False, "preserve_tag": False,
    "filter": ["tag", "Glob", "public:*"], "allow_cycle": True, "allow_fan_in": True, "guarantee": "exactly_once",
    "paused": True, "from": "earliest",
}  # fmt: skip
WHOLE_SCHEDULE = {
    "data": {"n": 1.50}, "tag": "mail", "node": "shop", "meta": {"a": 1}, "not_before": FAR_TS + 7, "cron": "0 3 * * *",
    "timezone": "Europe/Berlin",
}  # fmt: skip
WHOLE_WEBHOOK = {
    "url": f"{EXAMPLE}?whole=yes", "topics": ["{topic}", "{topic}.*"], "match": ["tag", "Eq", "mail"], "format": "batch",
    "max_batch": 7, "max_wait_ms": 8, "headers": {"Authorization": "Bearer of-the-shop"}, "timeout_ms": 900,
    "concurrency": 3, "order": "none", "retry": {"schedule_ms": [5, 6], "max_attempts": 4}, "on_exhausted": "skip",
    "from": "earliest",
}  # fmt: skip
# Each PUT. A new one has to say here what it takes.
TABLE = {
    Operation.PUT_TOPIC: Put({}, WHOLE_TOPIC),
    Operation.PUT_CURSOR: Put({"at": "earliest"}, {"seq": 2, "expected_seq": 0}, ("from_ts", "at", "expected_seq")),
    Operation.PUT_SCHEDULE: Put({"data": 1, "not_before": FAR_TS}, WHOLE_SCHEDULE),
    Operation.PUT_ROUTER: Put(
        {"source": "{topic}", "dest": "{topic}-d"}, WHOLE_ROUTER, ("create_dest", "from", "from_ts")
    ),
    Operation.PUT_WEBHOOK: Put({"url": EXAMPLE, "topics": ["{topic}"]}, WHOLE_WEBHOOK, ("secret", "from")),
}


def taken(operation: Operation) -> set[str]:
    """Returns the fields that a PUT takes."""
    (body,) = (each.body for each in DESCRIBED.operations if each.operation is operation)
    assert body is not None
    return {field.encode_name for field in msgspec.structs.fields(body)}


def test_every_put_is_tried() -> None:
    assert set(TABLE) == set(PUTS)


@pytest.fixture
def paths(views: ApiClient, name: str) -> dict[str, str]:
    """The names for the paths of PUTs that need a topic, of those that a test has made."""
    assert views.append(name, 1, 2, 3).status == 201
    assert views.put(f"/v0/topics/{name}-jobs", {"type": "queue"}).status == 201
    return {"topic": name}


@pytest.mark.parametrize("operation", PUTS, ids=str)
def test_what_a_get_shows_can_be_put_again(views: ApiClient, paths: dict[str, str], operation: Operation) -> None:
    put, configs = TABLE[operation], []
    for kind, body in (("bare", put.bare), ("whole", put.whole)):
        path = path_of(operation, paths["topic"], kind)
        made = views.put(path, filled(body, **paths))
        assert made.status == 201, made.body
        before = views.get(path).json
        config = {field: value for field, value in config_of(before).items() if field in taken(operation)}
        again = views.put(path, config)
        assert again.status == 200, again.body
        assert again.json["created"] is False
        after = views.get(path).json
        assert still(after) == still(before)
        configs.append(config)
    bare, whole = configs
    assert set(whole) == taken(operation) - set(put.unseen)
    assert [field for field in whole if field in bare and whole[field] == bare[field]] == []


def path_of(operation: Operation, topic: str, kind: str) -> str:
    """Returns a path of its own for the `bare` and the `whole` one."""
    *_, own = operation.paths[0].names
    of = f"{topic}-jobs" if operation is Operation.PUT_SCHEDULE else topic
    names = {"topic": of, own: f"{topic}-{kind}"}
    return filled(operation.paths[0].path, **names)


def config_of(shown: dict[str, Any]) -> dict[str, Any]:
    return shown.get("config", shown)


def still(shown: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in shown.items() if field not in MOVING}


def test_a_webhook_keeps_what_its_answers_hide(views: ApiClient, paths: dict[str, str]) -> None:
    path = path_of(Operation.PUT_WEBHOOK, paths["topic"], "whole")
    views.put(path, filled(WHOLE_WEBHOOK, **paths))
    before = run(webhooks.find(path.rpartition("/")[2]))
    shown = {field: value for field, value in views.get(path).json.items() if field in taken(Operation.PUT_WEBHOOK)}
    assert shown["headers"] == {"Authorization": "***"}
    assert views.put(path, shown).status == 200
    after = run(webhooks.find(before.name))
    assert (after.secret, after.settings) == (before.secret, before.settings)
    # Who cannot see a value does not send it to another URL, and a webhook without the value does not send the stars.
    elsewhere, unknown = {**shown, "url": EXAMPLE}, {**shown, "headers": {"X-Shop": "***"}}
    for to, body in ((path, elsewhere), (path, unknown), (f"{path}-2", shown)):
        refused = views.put(to, body)
        assert (refused.status, refused.code, refused.detail) == (400, "invalid_request", {"field": "headers"})
    assert run(webhooks.find(before.name)).settings == before.settings
    assert views.get(f"{path}-2").status == 404
