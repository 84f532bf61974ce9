"""`topics routers put`, `get`, `list` and `delete` (docs/routers.md)."""

from __future__ import annotations

from typing import Any

import click

from shell.answers import print_deleted, print_listed, print_one, print_put
from shell.calls.topics import predicate
from shell.command import ROUTER, SEQ, TOPIC, CommandConnection, prints_answer
from shell.server import ask, listed, path
from shell.table import Column

ROUTERS = (
    Column("LAG", "lag", ">12"),
    Column("FORWARDED", "forwarded_total", ">12"),
    Column("STATE", "state", "8"),
    Column("SOURCE", "source", "20"),
    Column("DEST", "dest", "20"),
    Column("NAME", "router", ""),
)


@click.argument("router", metavar="NAME", type=ROUTER)
@click.argument("source", metavar="SOURCE", type=TOPIC)
@click.argument("dest", metavar="DEST", type=TOPIC)
@click.option(
    "--filter", metavar="TAG", help='forward only this tag, or a predicate: ["tag", "Glob", "order:*"]. null: all'
)
@click.option("--preserve-node/--no-preserve-node", default=None, help="whether copies keep the node (default yes)")
@click.option("--preserve-tag/--no-preserve-tag", default=None, help="whether copies keep the tag (default yes)")
@click.option("--create-dest/--no-create-dest", default=None, help="whether to create a missing dest (default yes)")
@click.option("--allow-cycle/--no-allow-cycle", default=None, help="whether the router may close a cycle (default no)")
@click.option("--allow-fan-in/--no-allow-fan-in", default=None, help="whether the dest may have other sources")
@click.option(
    "--guarantee",
    type=click.Choice(["at_least_once", "exactly_once"]),
    help="exactly_once: stamp copies with their origin",
)
@click.option("--paused/--no-paused", default=None, help="whether the router is paused (default no)")
@click.option(
    "--from", "start", metavar="WHERE", help="start of a new router: head, earliest, or after a seq (default head)"
)
@click.option(
    "--from-ts",
    type=SEQ,
    metavar="MS",
    help="instead of --from: the first record at or after this time, in ms since 1970",
)
@prints_answer
def put(
    connection: CommandConnection,
    router: str,
    source: str,
    dest: str,
    filter: str | None,
    start: str | None,
    is_json: bool,
    **config: Any,
) -> None:
    """Create a router that forwards new records from SOURCE to DEST, or change the given fields of a router."""
    given = {"source": source, "dest": dest, **{name: value for name, value in config.items() if value is not None}}
    if filter is not None:
        given["filter"] = None if filter == "null" else predicate(filter)
    if start is not None:
        given["from"] = int(start) if start.isascii() and start.isdigit() else start
    answer = ask(connection.server, "PUT", path("routers", router), None, given)
    print_put(router, answer, is_json)


@click.argument("router", metavar="NAME", type=ROUTER)
@prints_answer
def get(connection: CommandConnection, router: str, is_json: bool) -> None:
    """Show a router: its position, its lag, and its last error."""
    answer = ask(connection.server, "GET", path("routers", router))
    print_one(answer, is_json)


@click.argument("prefix", metavar="[PREFIX]", default="", type=ROUTER)
@click.option("--source", metavar="NAME", type=TOPIC, help="only routers from this topic")
@click.option("--dest", metavar="NAME", type=TOPIC, help="only routers to this topic")
@prints_answer
def list_routers(
    connection: CommandConnection, prefix: str, source: str | None, dest: str | None, is_json: bool
) -> None:
    """List the routers whose names start with PREFIX."""
    asked = {"prefix": prefix, "source": source, "dest": dest}
    query = {name: value for name, value in asked.items() if value}
    found = listed(connection.server, path("routers"), "routers", query)
    print_listed(ROUTERS, found, is_json)


@click.argument("router", metavar="NAME", type=ROUTER)
@prints_answer
def delete(connection: CommandConnection, router: str, is_json: bool) -> None:
    """Stop forwarding and delete the router. The dest keeps the forwarded records."""
    answer = ask(connection.server, "DELETE", path("routers", router))
    print_deleted("router", router, answer, is_json)
