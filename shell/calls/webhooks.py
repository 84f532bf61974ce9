"""`topics webhooks …` (docs/webhooks.md)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import click

from base.units import counted, moment
from shell.answers import print_deleted, print_done, print_json, print_listed, print_one
from shell.calls.schedules import Json
from shell.calls.topics import predicate
from shell.command import SEQ, TOPIC, WEBHOOK, CommandConnection, prints_answer
from shell.server import ask, listed, path
from shell.table import Column

WEBHOOKS = (
    Column("DELIVERED", "delivered_total", ">12"),
    Column("WAITING", "waiting", ">9"),
    Column("DEAD", "dead_total", ">8"),
    Column("STATE", "state", "8"),
    Column("URL", "url", "40"),
    Column("NAME", "webhook", ""),
)
DELIVERIES = (
    Column("TIME-UTC", "time", "19"),
    Column("STATE", "state", "9"),
    Column("STATUS", "status", ">6"),
    Column("MS", "ms", ">6"),
    Column("ATTEMPT", "attempt", ">7"),
    Column("TOPIC", "topic", "20"),
    Column("SEQ", "first_seq", ">12"),
    Column("ERROR", "error", ""),
)
FORMATS = ("record", "batch", "cloudevents", "data")
ORDERS = ("tag", "topic", "none")
EXHAUSTED = ("dead_letter", "pause", "skip")
STATES = ("delivered", "failed", "dead", "skipped", "lost")
named = click.argument("webhook", metavar="NAME", type=WEBHOOK)


@named
@click.argument("to", metavar="URL")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--match", metavar="TAG", help='only records with this tag, or a predicate: ["tag", "Glob", "order:*"]')
@click.option("--format", type=click.Choice(FORMATS), help="the body of a call (default record)")
@click.option(
    "--max-batch",
    type=click.IntRange(1, 1_000),
    metavar="N",
    help="for batch: the most records of a call (default 100)",
)
@click.option(
    "--max-wait-ms",
    type=click.IntRange(0, 60_000),
    metavar="MS",
    help="for batch: how long a call waits for more records",
)
@click.option("--order", type=click.Choice(ORDERS), help="which records wait for each other (default tag)")
@click.option("--concurrency", type=click.IntRange(1, 64), metavar="N", help="the most calls at once (default 8)")
@click.option(
    "--timeout-ms", type=click.IntRange(100, 60_000), metavar="MS", help="after which a call has failed (default 15000)"
)
@click.option(
    "--retry",
    type=Json(),
    metavar="JSON",
    help='the attempts of a record: {"schedule_ms": [5000, 60000], "max_attempts": 10}',
)
@click.option("--on-exhausted", type=click.Choice(EXHAUSTED), help="after the last attempt (default dead_letter)")
@click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="a header of each call. Can be repeated")
@click.option("--secret", metavar="whsec_…", help="the secret of the signatures (default: a new one, which is printed)")
@click.option(
    "--from", "start", metavar="WHERE", help="where new topics begin: head, earliest, or after a seq (default head)"
)
@prints_answer
def put(
    connection: CommandConnection,
    webhook: str,
    to: str,
    topics: tuple[str, ...],
    match: str | None,
    headers: tuple[str, ...],
    start: str | None,
    is_json: bool,
    **config: Any,
) -> None:
    """Create a webhook that sends the records of topics to URL, or replace its config. A TOPIC can be a prefix: 'shop.*'.

    A field that you leave out gets its default, also in a change. The secret alone stays. A TOPIC that you leave out is
    forgotten, with its records that wait or failed.
    """
    given = {"url": to, "topics": list(topics), **{name: value for name, value in config.items() if value is not None}}
    if match is not None:
        given["match"] = predicate(match)
    if headers:
        given["headers"] = dict(parted(each) for each in headers)
    if start is not None:
        given["from"] = int(start) if start.isascii() and start.isdigit() else start
    answer = ask(connection.server, "PUT", path("webhooks", webhook), None, given)
    if is_json:
        print_json(answer)
        return
    click.echo(f"{webhook} is {'created' if answer.get('created') else 'changed'}")
    if "secret" in answer:
        click.echo(f"its secret, which is not shown again: {answer['secret']}")
    elif "secret" not in given:
        click.echo(
            f"its secret stays, and was shown at its creation alone: `topics webhooks rotate {webhook}` makes another"
        )


def parted(header: str) -> tuple[str, str]:
    name, colon, value = header.partition(":")
    if not colon:
        raise click.UsageError(f"--header {header!r}: expected NAME:VALUE")
    return name.strip(), value.strip()


@named
@prints_answer
def get(connection: CommandConnection, webhook: str, is_json: bool) -> None:
    """Show a webhook: its config, its state, and its last error."""
    print_one(ask(connection.server, "GET", path("webhooks", webhook)), is_json)


@click.argument("prefix", metavar="[PREFIX]", default="", type=WEBHOOK)
@prints_answer
def list_webhooks(connection: CommandConnection, prefix: str, is_json: bool) -> None:
    """List the webhooks whose names start with PREFIX."""
    print_listed(WEBHOOKS, listed(connection.server, path("webhooks"), "webhooks", {"prefix": prefix}), is_json)


@named
@prints_answer
def delete(connection: CommandConnection, webhook: str, is_json: bool) -> None:
    """Delete a webhook. Nothing is sent afterwards. Its dead letters stay."""
    print_deleted("webhook", webhook, ask(connection.server, "DELETE", path("webhooks", webhook)), is_json)


def changing(what: str, done: str, help: str) -> Callable[..., None]:
    """Returns the command that makes the call `what` without a body."""

    @named
    @prints_answer
    def change(connection: CommandConnection, webhook: str, is_json: bool) -> None:
        answer = ask(connection.server, "POST", path("webhooks", webhook, what))
        print_done(done.format(name=webhook, **answer), answer, is_json)

    change.__name__, change.__doc__ = what, help
    return change


pause = changing("pause", "{name} is paused", "Pause a webhook. Its records wait in their topics.")
resume = changing("resume", "{name} is running", "Resume a webhook. A failing endpoint gets its next call at once.")
test = changing(
    "test", "A test is sent. `topics webhooks deliveries {name}` shows its outcome", "Send a test to a webhook."
)
rotate = changing(
    "rotate",
    "the new secret of {name}, which is not shown again: {secret}",
    "Give a webhook another secret. For a day, calls are signed by the former one, too.",
)


@named
@click.option("--topic", type=TOPIC, help="only calls with records of this topic")
@click.option("--seq", type=SEQ, metavar="SEQ", help="only calls with this record of --topic")
@click.option(
    "--state",
    type=click.Choice(STATES),
    help="only calls that ended so",
)
@click.option("-n", "most", default=20, metavar="N", help="the most calls (default 20)")
@prints_answer
def deliveries(
    connection: CommandConnection,
    webhook: str,
    topic: str | None,
    seq: int | None,
    state: str | None,
    most: int,
    is_json: bool,
) -> None:
    """List the last calls of a webhook, the newest first."""
    asked = {"topic": topic, "seq": seq, "state": state}
    query = {name: value for name, value in asked.items() if value is not None}
    found = islice(listed(connection.server, path("webhooks", webhook, "deliveries"), "deliveries", query), most)
    print_listed(DELIVERIES, ({**each, "time": moment(each["ts"])} for each in found), is_json)


@named
@click.option("--failed", is_flag=True, help="records that had no attempt left, and were not delivered since")
@click.option("--topic", type=TOPIC, help="records of this topic")
@click.option("--from-seq", type=SEQ, metavar="SEQ", help="the first record")
@click.option("--to-seq", type=SEQ, metavar="SEQ", help="the last record")
@click.option("--from-ts", type=SEQ, metavar="MS", help="only records of this time or later, in ms since 1970")
@click.option("--to-ts", type=SEQ, metavar="MS", help="only records of this time or earlier")
@click.option("--dry-run", is_flag=True, help="count the records, and send nothing")
@prints_answer
def replay(connection: CommandConnection, webhook: str, dry_run: bool, is_json: bool, **wanted: Any) -> None:
    """Send records again: a range of a topic, or all that failed."""
    given = {name: value for name, value in wanted.items() if value not in (None, False)} | {"dry_run": dry_run}
    if "topic" in given:
        given.setdefault("to_seq", 2**63 - 1)  # without it, a replay of those that failed continues in later topics
    total = 0
    while True:
        answer = ask(connection.server, "POST", path("webhooks", webhook, "replay"), None, given)
        total += answer["records"]
        if is_json:
            print_json(answer)
        if answer["next_topic"] is None:
            break
        given |= {"topic": answer["next_topic"], "from_seq": answer["next_from_seq"]}
    if not is_json:
        click.echo(f"{counted(total, 'record')} {'would be' if dry_run else 'are'} sent again")
