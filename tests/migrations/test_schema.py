"""From nothing, and from every schema that ever landed, the migrations give the same objects; and they run backwards.

`schemas/` holds what pg_dump told of databases that were made by the commits that the files are named after, with the rows of
django_migrations. 0521d69 had no models of routers yet: its dump is that of the first commit that could be migrated, 355308b, with
the same files of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tests.migrations.databases import database, migrate, objects

SCHEMAS = sorted((Path(__file__).parent / "schemas").glob("*.sql"), key=lambda path: path.name)
SINCE_17 = "SET transaction_timeout = 0;\n"  # pg_dump says it first; no older PostgreSQL knows the setting

# Topics a, b and c with routers a>b>c, of which the first may lie on a cycle, as the schema before facts held them.
ROUTERS = """
INSERT INTO topics_topic (name, type, ttl_ms, cap_records, cap_bytes, discard, durability, auto_priority, auto_create,
                          idempotency_window_ms, dedupe_node, lease_ms, claim_jitter_ms, max_deliveries, leases_durable, created_ts)
SELECT name, 'log', 0, 0, 0, 'old', 'disk', true, true, 0, true, 0, 0, 0, false, 0 FROM unnest('{a,b,c}'::text[]) name;
INSERT INTO topics_topichead (topic_id, head_seq, floor_seq, cap_lost_seq, ttl_lost_seq, restart_lost_seq, source_lost_seq, ragged_seq,
                              count, bytes, total, last_ts, last_read_ts, version)
SELECT id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 FROM topics_topic;
INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
SELECT id, 'router', name, 0, 0, 0 FROM topics_topic WHERE name IN ('a', 'b');
INSERT INTO routers_router (name, source_id, dest_id, cursor_id, preserve_node, preserve_tag, allow_cycle, allow_fan_in, cyclic,
                            guarantee, state, errors_total, retry_ts, retry_ms, created_ts)
SELECT source.name, source.id, dest.id, c.id, true, true, source.name = 'a', false, source.name = 'a', 'at_least_once', 'running', 0, 0, 0, 0
  FROM topics_topic source JOIN topics_cursor c ON c.topic_id = source.id JOIN topics_topic dest ON dest.id = source.id + 1
"""
FACTS = """
SELECT name, routed, derived, keeps_evidence FROM topics_topichead JOIN topics_topic ON id = topic_id ORDER BY name
"""
SPAN_PERMISSIONS = """
SELECT app_label, codename FROM django_content_type type JOIN auth_permission ON content_type_id = type.id
 WHERE model = 'span' ORDER BY codename
"""


@pytest.fixture(scope="module")
def fresh() -> Iterator[str]:
    """A database that was migrated from nothing. It also made the role that the dumps grant to."""
    with database() as url:
        migrate(url)
        yield url


class Landed(NamedTuple):
    url: str
    permissions: list[tuple[str, str]]  # on spans, before it was migrated


@pytest.fixture(scope="module", params=SCHEMAS, ids=lambda path: path.stem)
def landed(request: pytest.FixtureRequest, fresh: str) -> Iterator[Landed]:
    """A database as a commit left it, with a few routers in it, brought up to now."""
    with database() as url:
        with psycopg.connect(url) as connection:
            connection.execute(request.param.read_text().replace(SINCE_17, ""))
        with psycopg.connect(url) as connection:  # the dump's settings are gone
            connection.execute(ROUTERS)
            permissions = connection.execute(SPAN_PERMISSIONS).fetchall()
        migrate(url)
        yield Landed(url, permissions)


def differing(one: dict[str, str], other: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    return {name: (one.get(name), other.get(name)) for name in {*one, *other} if one.get(name) != other.get(name)}


def test_every_schema_that_landed_becomes_the_same(landed: Landed, fresh: str) -> None:
    assert differing(objects(landed.url), objects(fresh)) == {}


def test_heads_know_of_the_routers_that_are_there(landed: Landed) -> None:
    with psycopg.connect(landed.url) as connection:
        facts = connection.execute(FACTS).fetchall()
    assert facts == [("a", True, False, False), ("b", True, True, True), ("c", False, True, False)]


def test_permissions_on_spans_move_with_their_model(landed: Landed) -> None:
    with psycopg.connect(landed.url) as connection:
        after = connection.execute(SPAN_PERMISSIONS).fetchall()
    assert {app for app, _ in landed.permissions} == {"routers"}
    assert after == [("topics", codename) for _, codename in landed.permissions]


def test_it_goes_back_to_nothing_and_comes_again(fresh: str) -> None:
    whole = objects(fresh)
    migrate(fresh, "topics", "zero")  # the routers stand on it and go first
    left = {name for name in objects(fresh) if any(ours in name for ours in ("topic", "router", "span", "reclaim"))}
    assert left == set()
    migrate(fresh)
    assert differing(objects(fresh), whole) == {}
