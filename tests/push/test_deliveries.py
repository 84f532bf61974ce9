"""The log of a webhook's calls, and which records a replay sends again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.db import connection

from base.clock import now_ms
from base.errors import InvalidRequest
from contract.listing import next_cursor
from push.webhooks import webhooks
from push.webhooks.config import PutWebhook
from push.webhooks.deliveries import ReplayChoice, replay
from store.script import run
from tests.api.clients import ViewClient
from tests.scripts import put_topic
from topics.config import Config
from wire.access.keys import OPEN

FAILED = """
INSERT INTO push_webhookfailed (webhook_id, topic_id, seq, ts)
SELECT w.id, t.id, n, 1 FROM push_webhook w, topics_topic t, generate_series(1, 2) n WHERE w.name = 'shop' AND t.name ^@ 'failed.'
"""
WAYS: list[tuple[dict[str, Any], list[tuple[str, int]]]] = [
    ({}, [("failed.a", 1), ("failed.a", 2), ("failed.b", 1), ("failed.b", 2)]),
    ({"topic": "failed.a", "from_seq": 2}, [("failed.a", 2), ("failed.b", 1), ("failed.b", 2)]),
    ({"topic": "failed.a", "from_seq": 1, "to_seq": 1}, [("failed.a", 1)]),
    ({"topic": "failed.a", "from_seq": 2, "to_seq": 9}, [("failed.a", 2)]),
    ({"topic": "failed.b", "to_seq": 1}, [("failed.b", 1)]),
]


@pytest.fixture
def shop(db: None) -> None:
    """A webhook with two topics, of which two records each were given up."""
    for topic in ("failed.a", "failed.b"):
        put_topic(topic, Config(), now_ms())
    config = {"url": "https://example.com/", "topics": ["failed.*"]}
    run(webhooks.put("shop", msgspec.convert(config, PutWebhook), OPEN, now_ms()))
    with connection.cursor() as cursor:
        cursor.execute(FAILED)


def failed(**wanted: Any) -> list[tuple[str, int]]:
    choice = ReplayChoice(None, None, None, None, None, failed=True)._replace(**wanted)
    return run(replay("shop", choice, now_ms(), is_dry=True)).found


@pytest.mark.parametrize(("wanted", "found"), WAYS)
def test_a_replay_of_failed_records_keeps_to_its_seqs(
    shop: None, wanted: dict[str, Any], found: list[tuple[str, int]]
) -> None:
    assert failed(**wanted) == found


@pytest.mark.parametrize("alone", [{"from_seq": 2}, {"to_seq": 1}])
def test_seqs_without_a_topic_are_refused(shop: None, alone: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest, match="seqs belong to a topic"):
        failed(**alone)


@pytest.mark.parametrize("cursor", ["9" * 4_301, "9" * 20, "٣", "-1"])
def test_a_cursor_that_no_list_gave_out_is_refused(shop: None, cursor: str) -> None:
    refused = ViewClient().get(f"/v0/webhooks/shop/deliveries?cursor={next_cursor(cursor)}")
    assert (refused.status, refused.code) == (400, "invalid_request")


CALLED = """
INSERT INTO push_webhooklog (webhook_id, ts, topic, first_seq, last_seq, records, message, attempt, state, ms)
SELECT id, 1, 'failed.a', %s, %s, 1, 'sent', 1, 'delivered', 1 FROM push_webhook WHERE name = 'shop'
"""


def test_the_calls_with_the_highest_seq_can_be_asked_for(shop: None) -> None:
    page = f"/v0/webhooks/shop/deliveries?topic=failed.a&seq={2**63 - 1}"
    assert ViewClient().get(page).json["deliveries"] == []
    with connection.cursor() as cursor:
        cursor.execute(CALLED, [2**63 - 2, 2**63 - 1])
    (call,) = ViewClient().get(page).json["deliveries"]
    assert (call["first_seq"], call["last_seq"]) == (2**63 - 2, 2**63 - 1)
    refused = ViewClient().get(f"/v0/webhooks/shop/deliveries?topic=failed.a&seq={2**63}")
    assert (refused.status, refused.code) == (400, "invalid_request")
