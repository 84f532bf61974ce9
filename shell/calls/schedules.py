"""`topics schedules list`, `get`, `put` and `delete` (docs/queues.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click
import msgspec

from base.clock import now_ms
from base.errors import InvalidRequest
from base.units import moment
from shell.answers import print_deleted, print_json, print_listed
from shell.command import SCHEDULE, TOPIC, CommandConnection, prints_answer
from shell.lines import Shape
from shell.server import CommandServer, ask, listed, path
from shell.table import Column, print_fields

MOST_DIGITS = 20
Raws = dict[str, msgspec.Raw]  # an answer, with the bytes of data and meta as they were sent

SCHEDULES = (
    Column("JOBS", "jobs", ">8"),
    Column("NEXT-UTC", "next", "19"),
    Column("LAST-UTC", "last", "19"),
    Column("ERROR", "has_error", "5"),
    Column("CRON", "cron", "15"),
    Column("TIMEZONE", "timezone", "16"),
    Column("NAME", "schedule", ""),
)


class Time(click.ParamType):
    """A time in ms since 1970, or in ISO 8601 with its offset."""

    name = "time"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int:
        if value.isascii() and value.isdigit() and len(value) < MOST_DIGITS:
            return int(value)
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            time = datetime.min
        if time.tzinfo is None:
            self.fail(
                f"{value!r}: expected a time with its offset from UTC, such as 2027-01-31T08:00+01:00, or ms since 1970",
                parameter,
                context,
            )
        return int(time.timestamp() * 1000)


class Json(click.ParamType):
    """A JSON value. The server gets the text as the user typed it."""

    name = "json"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> msgspec.Raw:
        try:
            record = Shape().record(os.fsencode(value))
        except InvalidRequest as error:
            self.fail(f"invalid JSON {value!r}: {error.message}. A text needs double quotes", parameter, context)
        if record is None:
            self.fail("expected JSON", parameter, context)
        return record.data


@click.argument("topic", metavar="QUEUE", type=TOPIC)
@click.argument("schedule", metavar="NAME", type=SCHEDULE)
@click.option(
    "--cron",
    metavar="LINE",
    help="five fields in quotes: minute, hour, day, month, weekday. Without a cron line, one job comes",
)
@click.option("--timezone", metavar="NAME", help="timezone of the cron line, such as Europe/Berlin (default UTC)")
@click.option(
    "--not-before",
    type=Time(),
    metavar="TIME",
    help="time of the job, or of the first one: 2027-01-31T08:00+01:00, or ms since 1970",
)
@click.option("--data", type=Json(), metavar="JSON", required=True, help="data of each job")
@click.option("--tag", help="tag of each job")
@click.option("--node", help="node of each job")
@click.option("--meta", type=Json(), metavar="JSON", help="meta of each job, an object")
@prints_answer
def put(connection: CommandConnection, topic: str, schedule: str, is_json: bool, **config: Any) -> None:
    """Create a schedule that gives a queue a job later or again and again, or replace a schedule."""
    if config["cron"] is None and config["not_before"] is None:
        raise click.UsageError("send --not-before for one job, --cron for jobs again and again, or both")
    given = {name: value for name, value in config.items() if value is not None}
    answer = asked(connection.server, "PUT", topic, schedule, given)
    if is_json:
        print_json(answer)
        return
    next_ts, created = (msgspec.json.decode(answer[name]) for name in ("next_ts", "created"))
    if next_ts is None:
        click.echo(f"{schedule} was created before, and its job has come: this call changes nothing")
        return
    comes = f"at {moment(next_ts)} UTC" if next_ts > now_ms() else "now"
    click.echo(f"{schedule} is {'created' if created else 'replaced'}: the next job comes {comes}")


@click.argument("topic", metavar="QUEUE", type=TOPIC)
@click.argument("schedule", metavar="NAME", type=SCHEDULE)
@prints_answer
def get(connection: CommandConnection, topic: str, schedule: str, is_json: bool) -> None:
    """Show a schedule, its last error, and the data of its jobs."""
    answer = asked(connection.server, "GET", topic, schedule)
    if is_json:
        print_json(answer)
    else:
        print_fields({name: text(name, value) for name, value in answer.items()})


@click.argument("topic", metavar="QUEUE", type=TOPIC)
@prints_answer
def list_schedules(connection: CommandConnection, topic: str, is_json: bool) -> None:
    """List the schedules of a queue, with the times of their next and last jobs. ERROR: the queue refused the last one."""
    found = listed(connection.server, path("topics", topic, "schedules"), "schedules")
    print_listed(SCHEDULES, found if is_json else map(row, found), is_json)


@click.argument("topic", metavar="QUEUE", type=TOPIC)
@click.argument("schedule", metavar="NAME", type=SCHEDULE)
@prints_answer
def delete(connection: CommandConnection, topic: str, schedule: str, is_json: bool) -> None:
    """Delete a schedule. Its earlier jobs stay in the queue."""
    answer = ask(connection.server, "DELETE", path("topics", topic, "schedules", schedule))
    print_deleted("schedule", schedule, answer, is_json)


def asked(server: CommandServer, method: str, topic: str, schedule: str, body: Mapping[str, Any] | None = None) -> Raws:
    """Sends a call about one schedule. Returns the answer. Raises TopicsError."""
    sent = None if body is None else msgspec.json.encode(body)
    return msgspec.json.decode(server.send(method, path("topics", topic, "schedules", schedule), None, sent), type=Raws)


def text(name: str, value: msgspec.Raw) -> Any:
    """Returns a field for people: a time in UTC, and data and meta as they were sent."""
    if name in ("data", "meta"):
        return bytes(value).decode()
    shown = msgspec.json.decode(value)
    return f"{moment(shown)} UTC" if name.endswith("_ts") and shown else shown


def row(schedule: dict[str, Any]) -> dict[str, Any]:
    times = {"next": moment(schedule["next_ts"]), "last": moment(schedule["last_ts"])}
    return {**schedule, **times, "has_error": schedule["error"] is not None}
