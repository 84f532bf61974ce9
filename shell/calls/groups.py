"""`topics groups list`, `get` and `delete` (docs/groups.md)."""

from __future__ import annotations

import click

from shell.answers import print_deleted, print_json, print_listed
from shell.command import GROUP, TOPIC, CommandConnection, prints_answer
from shell.server import ask, listed, path
from shell.table import Column, print_table

GROUPS = (
    Column("MEMBERS", "member_count", ">8"),
    Column("SHARES", "partitions", ">8"),
    Column("LAG", "lag", ">14"),
    Column("UNREAD-MS", "oldest_unread_ms", ">14"),
    Column("NAME", "group", ""),
)
SHARES = (
    Column("SHARE", "share", ">6"),
    Column("SEQ", "seq", ">14"),
    Column("LAG", "lag", ">14"),
    Column("UNREAD-MS", "oldest_unread_ms", ">14"),
    Column("GENERATION", "generation", ">12"),
    Column("OWNER", "member", ""),
)


@click.argument("topic", metavar="TOPIC", type=TOPIC)
@prints_answer
def list_groups(connection: CommandConnection, topic: str, is_json: bool) -> None:
    """List the consumer groups of a topic."""
    print_listed(GROUPS, listed(connection.server, path("topics", topic, "groups"), "groups"), is_json)


@click.argument("topic", metavar="TOPIC", type=TOPIC)
@click.argument("group", metavar="NAME", type=GROUP)
@prints_answer
def get(connection: CommandConnection, topic: str, group: str, is_json: bool) -> None:
    """Show the shares of a consumer group, with their cursors and owners."""
    answer = ask(connection.server, "GET", path("topics", topic, "groups", group))
    if is_json:
        print_json(answer)
    else:
        print_table(SHARES, iter(answer["shares"]))


@click.argument("topic", metavar="TOPIC", type=TOPIC)
@click.argument("group", metavar="NAME", type=GROUP)
@prints_answer
def delete(connection: CommandConnection, topic: str, group: str, is_json: bool) -> None:
    """Delete a consumer group and its cursors. The streams of its members end."""
    print_deleted("group", group, ask(connection.server, "DELETE", path("topics", topic, "groups", group)), is_json)
