"""What migrations of the push bus do to rows."""

from __future__ import annotations

import json

import psycopg

from tests.migrations.databases import database, migrate

ADD = """
INSERT INTO topics_auditentry (ts, actor, actor_name, origin, action, kind, name, before, after)
VALUES (1, 'bus:1', '', '', 'change', %s, 'subscriber bus.queue:a.1', %s::jsonb, %s::jsonb)
"""


def test_credentials_of_callbacks_leave_the_audit_log() -> None:
    with database() as url:
        migrate(url, "push", "0004")
        migrate(url, "topics")
        old = {"callback": "https://user:p@ss@callback.example/a@b", "max": 5}
        plain = {"callback": "https://callback.example/a@b"}
        entries = [("bus", old, plain), ("bus", None, old), ("bus", {"max": 1}, {"max": 2}), ("topic", {}, old)]
        with psycopg.connect(url) as connection:
            for kind, before, after in entries:
                connection.execute(ADD, [kind, json.dumps(before) if before else None, json.dumps(after)])
        migrate(url, "push")
        new = {**old, "callback": "https://***@callback.example/a@b"}
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT before, after FROM topics_auditentry ORDER BY id").fetchall()
        assert found == [(new, plain), (None, new), ({"max": 1}, {"max": 2}), (None, old)]


def test_an_earlier_version_knows_no_topic_without_a_publisher() -> None:
    with database() as url:
        migrate(url, "push")
        with psycopg.connect(url) as connection:
            connection.execute("INSERT INTO push_busclient (name, token, created_ts) VALUES ('a', 'a--1', 0)")
            connection.execute(
                "INSERT INTO push_bustopic (name, publisher_id, created_ts) SELECT 'published', id, 0 FROM push_busclient"
            )
            connection.execute("INSERT INTO push_bustopic (name, created_ts) VALUES ('expected', 0)")
        migrate(url, "push", "0005")
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT name FROM push_bustopic").fetchall() == [("published",)]
        migrate(url, "push")
