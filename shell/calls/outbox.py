"""`topics outbox`: emitted records that have not arrived at their topics (docs/guides/outbox.md)."""

from __future__ import annotations

import click

from shell.answers import print_json
from shell.command import TOPIC, CommandConnection, confirm, prints_answer
from shell.table import Column, print_table

COLUMNS = (
    Column("RECORDS", "records", ">9"),
    Column("AGE S", "age_s", ">7"),
    Column("TOPIC", "topic", "30"),
    Column("REASON", "reason", ""),
)


@prints_answer
def list_waiting(connection: CommandConnection, is_json: bool) -> None:
    """List the topics with emitted records that have not arrived, with the age of the oldest and the reason."""
    connection.only_local()
    from outbox.waiting import waiting  # needs Django
    from store.script import run

    rows = [each._asdict() for each in run(waiting())]
    if is_json:
        for row in rows:
            print_json(row)
    else:
        print_table(COLUMNS, iter(rows))


@click.argument("topic", metavar="NAME", type=TOPIC)
@click.option("-y", "--yes", is_flag=True, help="skip without asking")
@click.pass_obj
def skip(connection: CommandConnection, topic: str, yes: bool) -> None:
    """Delete the first record that waits for a topic, and print it. The audit log keeps it."""
    connection.only_local()
    from outbox.waiting import skip
    from store.script import run

    if not yes:
        confirm(lambda: f"Delete the first record that waits for {topic}?")
    data, tag, key = run(skip(topic))
    click.echo(f"skipped tag {tag or '-'}, key {key or '-'}: {data}")


@click.argument("topic", metavar="[NAME]", type=TOPIC, required=False)
@click.pass_obj
def retry(connection: CommandConnection, topic: str | None) -> None:
    """Let the relay try a topic at once (default: all topics). It tries each topic at least every 10 s."""
    connection.only_local()
    from outbox.waiting import retry
    from store.script import run

    for name in run(retry(topic)):
        click.echo(f"the relay tries {name} again")
