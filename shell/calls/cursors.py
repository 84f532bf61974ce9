"""`topics cursors put`, `get`, `list` and `delete` (docs/wire.md, "Cursors")."""

from __future__ import annotations

import click

from shell.answers import print_deleted, print_done, print_listed, print_one
from shell.command import CURSOR, SEQ, TOPIC, CommandConnection, prints_answer
from shell.server import ask, listed, path
from shell.table import Column

CURSORS = (
    Column("SEQ", "seq", ">14"),
    Column("LAG", "lag", ">14"),
    Column("UNREAD-MS", "oldest_unread_ms", ">14"),
    Column("KIND", "kind", "12"),
    Column("NAME", "cursor", ""),
)


@click.argument("topic", metavar="TOPIC", type=TOPIC)
@click.argument("cursor", metavar="NAME", type=CURSOR)
@click.option("--seq", type=SEQ, help="the last seq that the reader has read")
@click.option(
    "--from-ts", type=SEQ, metavar="MS", help="before the first record at or after this time, in ms since 1970"
)
@click.option("--at", type=click.Choice(["head", "earliest"]), help="after the last record, or before the first")
@click.option("--expected-seq", type=SEQ, metavar="SEQ", help="fail if the cursor is not at this seq")
@prints_answer
def put(
    connection: CommandConnection,
    topic: str,
    cursor: str,
    seq: int | None,
    from_ts: int | None,
    at: str | None,
    expected_seq: int | None,
    is_json: bool,
) -> None:
    """Set a cursor."""
    where = {"seq": seq, "from_ts": from_ts, "at": at}
    if sum(value is not None for value in where.values()) != 1:
        raise click.UsageError("send exactly one of --seq, --from-ts and --at")
    wanted = {**where, "expected_seq": expected_seq}
    given = {name: value for name, value in wanted.items() if value is not None}
    answer = ask(connection.server, "PUT", path("topics", topic, "cursors", cursor), None, given)
    print_done(f"{cursor} is at {answer['seq']} of {topic}, {answer['lag']} behind", answer, is_json)


@click.argument("topic", metavar="TOPIC", type=TOPIC)
@click.argument("cursor", metavar="NAME", type=CURSOR)
@prints_answer
def get(connection: CommandConnection, topic: str, cursor: str, is_json: bool) -> None:
    """Show the position and the lag of a cursor."""
    answer = ask(connection.server, "GET", path("topics", topic, "cursors", cursor))
    print_one(answer, is_json)


@click.argument("topic", metavar="TOPIC", type=TOPIC)
@prints_answer
def list_cursors(connection: CommandConnection, topic: str, is_json: bool) -> None:
    """List the cursors of a topic: named cursors, and cursors of routers, subscriptions, Spark jobs and webhooks."""
    found = listed(connection.server, path("topics", topic, "cursors"), "cursors")
    print_listed(CURSORS, found, is_json)


@click.argument("topic", metavar="TOPIC", type=TOPIC)
@click.argument("cursor", metavar="NAME", type=CURSOR)
@prints_answer
def delete(connection: CommandConnection, topic: str, cursor: str, is_json: bool) -> None:
    """Delete a cursor."""
    answer = ask(connection.server, "DELETE", path("topics", topic, "cursors", cursor))
    print_deleted("cursor", cursor, answer, is_json)
