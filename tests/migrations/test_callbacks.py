"""The credentials of callbacks that earlier versions wrote into the audit log are taken out of it."""

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
