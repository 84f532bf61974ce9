"""A captured table in a run: sessions that change its rows in transactions, and what its topic and its rows are at the end."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.crash.harness.client import Client
from tests.crash.harness.emits import SHORT, Emitter
from tests.crash.harness.evidence import CaptureEvidence, Emit, now
from tests.crash.harness.load import Hand, Stage
from tests.crash.harness.queues import read
from tests.instances import Instance

TOPIC = "changes"
ROWS = 8
# The rows are there before the capture, so the topic has the changes of the run alone.
SET_UP = f"""
CREATE TABLE shelf (id int PRIMARY KEY, item text NOT NULL);
INSERT INTO shelf SELECT id, 'nothing' FROM generate_series(1, {ROWS}) id;
SELECT topics.capture('shelf', '{TOPIC}')
"""
CHANGE = "UPDATE shelf SET item = %s || '/' || id WHERE id = ANY (%s)"


class Changer(Emitter):
    """Changes a row or two with each statement. Two of them may wait for each other, and PostgreSQL ends one."""

    def __init__(self, stage: Stage, instance: Instance, number: int, hold: tuple[float, float]) -> None:
        super().__init__(stage, instance, number, hold)
        self.name, self.made = f"changer-{number}", self.evidence.captured.changes

    def emit(self, session: psycopg.Connection[Any], count: int) -> list[Emit]:
        found = []
        for _ in range(count):
            self.number += 1
            item, ids = f"{self.name}/{self.number}", self.random.sample(range(1, ROWS + 1), self.random.choice((1, 2)))
            at = now()
            session.execute(CHANGE, (item, ids))
            found += [Emit(at, TOPIC, f"{item}/{id}") for id in ids]
        return found


def changers(stage: Stage, instance: Instance) -> list[Hand]:
    return [Changer(stage, instance, 0, SHORT), Changer(stage, instance, 1, (0.0, 1.0))]


def look(client: Client, connection: psycopg.Connection[Any], captured: CaptureEvidence) -> None:
    """Reads the topic, and the rows."""
    captured.log = [(record["data"]["new"]["id"], record["data"]["new"]["item"]) for record in read(client, TOPIC)]
    ((captured.lost,),) = connection.execute("SELECT lost FROM topics.captures WHERE topic = %s", [TOPIC]).fetchall()
    captured.rows = dict(connection.execute("SELECT id, item FROM shelf WHERE item <> 'nothing'").fetchall())
