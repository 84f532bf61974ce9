"""`topics create`, `get`, `delete` and `trim`: PUT, GET and DELETE of a topic, and POST …/delete."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from base.errors import TopicsError
from shell.answers import print_done, print_one, print_put
from shell.command import SEQ, TOPIC, CommandConnection, confirm, prints_answer, seqs
from shell.server import ask, path

AMOUNT = click.IntRange(0, 2**62)


@click.argument("topic", metavar="NAME", type=TOPIC)
@click.option("--ttl-ms", type=AMOUNT, help="milliseconds after which a record expires. 0: never (default 0)")
@click.option("--cap-records", type=AMOUNT, help="maximum number of records. 0: no limit (default 0)")
@click.option("--cap-bytes", type=AMOUNT, help="maximum bytes of data and meta. 0: no limit (default 0)")
@click.option(
    "--discard",
    type=click.Choice(["old", "reject"]),
    help="full topic: evict old records, or reject appends (default old)",
)
@click.option(
    "--durability",
    type=click.Choice(["fsync", "disk", "memory", "ephemeral"]),
    help="which crashes an append survives (default disk)",
)
@click.option(
    "--priority", type=click.IntRange(-1000, 1000), help="watch streams read topics with a higher priority first"
)
@click.option(
    "--auto-priority/--no-auto-priority", default=None, help="without a priority: by last use, or 0 (default yes)"
)
@click.option(
    "--idempotency-window-ms", type=AMOUNT, help="milliseconds to remember an idempotency key (default 120000)"
)
@click.option("--dedupe-node/--no-dedupe-node", default=None, help="whether reads can leave out nodes (default yes)")
@click.option(
    "--numbers",
    type=click.Choice(["any", "double"]),
    help="double: refuse numbers beyond the range of a double, such as 1e400 (default any)",
)
@click.option(
    "--type", type=click.Choice(["log", "queue"]), help="queue: workers claim its records as jobs (default log)"
)
@click.option(
    "--lease-ms",
    type=click.IntRange(100, 86_400_000),
    help="of a queue: milliseconds until an unfinished job comes back (default 30000)",
)
@click.option(
    "--claim-jitter-ms",
    type=click.IntRange(0, 60_000),
    help="of a queue: milliseconds in which claims wait for each other, and then share the jobs evenly (default 0)",
)
@click.option(
    "--max-deliveries",
    type=click.IntRange(0, 2**31 - 1),
    help="of a queue: then a job is a dead letter. 0: no limit (default 0)",
)
@click.option("--dead-letter", metavar="NAME", help="of a queue: the topic of dead letters")
@click.option(
    "--leases-durable/--no-leases-durable", default=None, help="of a queue: leases survive a crash (default no)"
)
@click.option(
    "--unique-tags/--no-unique-tags", default=None, help="of a queue: one job of a tag at a time (default no)"
)
@click.option("--sealed/--no-sealed", default=None, help="sealed: the topic takes no records and no deletes")
@prints_answer
def create(connection: CommandConnection, topic: str, is_json: bool, **config: Any) -> None:
    """Create a topic, or change the given fields of an existing topic."""
    given = {name: value for name, value in config.items() if value is not None}
    answer = ask(connection.server, "PUT", path("topics", topic), None, given)
    print_put(topic, answer, is_json)


@click.argument("topic", metavar="NAME", type=TOPIC)
@prints_answer
def get(connection: CommandConnection, topic: str, is_json: bool) -> None:
    """Show the figures and the config of a topic."""
    answer = ask(connection.server, "GET", path("topics", topic), {"touch": False})
    print_one(answer, is_json)


@click.argument("topic", metavar="NAME", type=TOPIC)
@click.option("--if-empty", is_flag=True, help="fail if the topic holds records")
@click.option("-y", "--yes", is_flag=True, help="delete without asking")
@prints_answer
def delete(connection: CommandConnection, topic: str, if_empty: bool, yes: bool, is_json: bool) -> None:
    """Delete a topic with its records, its cursors, and all routers from or to it."""
    if not (yes or if_empty):
        confirm(lambda: deletion(connection, topic))
    answer = ask(connection.server, "DELETE", path("topics", topic), {"if_empty": if_empty})
    routers = answer["routers_removed"]
    deleted = f"{topic} is deleted" + (f", with the routers {', '.join(routers)}" if routers else "")
    print_done(deleted if answer["deleted"] else f"topic {topic!r} does not exist", answer, is_json)


def deletion(connection: CommandConnection, topic: str) -> str | None:
    """Returns the question before a topic is deleted, or None if it does not exist."""
    try:
        count = ask(connection.server, "GET", path("topics", topic), {"touch": False})["count"]
    except TopicsError as error:
        if error.code == "topic_not_found":
            return None
        count = "its"  # a key may delete a topic that it may not read
    return f"Delete {topic} and {count} records?"


@click.argument("topic", metavar="NAME", type=TOPIC)
@click.option("--before-seq", type=SEQ, metavar="SEQ", help="delete records below this seq")
@click.option("--match", metavar="TAG", help='delete records with this tag, or a predicate: ["tag", "Glob", "order:*"]')
@seqs("delete the record with this seq")
@click.option("-y", "--yes", is_flag=True, help="delete without asking")
@prints_answer
def trim(connection: CommandConnection, topic: str, match: str | None, yes: bool, is_json: bool, **chosen: Any) -> None:
    """Delete existing records permanently. Readers get no tombstone."""
    wanted = {**chosen, "seqs": chosen["seqs"] or None, "match": predicate(match)}
    given = {name: value for name, value in wanted.items() if value is not None}
    if not given or ("seqs" in given and len(given) > 1):
        raise click.UsageError(
            "send --seq, --before-seq or --match. --seq stands alone. With the other two, a record must meet both"
        )
    if not yes:
        confirm(lambda: f"Delete these records of {topic} permanently?")
    answer = ask(connection.server, "POST", path("topics", topic, "delete"), None, given)
    print_done(f"{answer['deleted']} records of {topic} are deleted, {answer['count']} are left", answer, is_json)


def predicate(match: str | None) -> Any:
    """Returns a tag, or the predicate if the text is a JSON array. Raises click.UsageError.

    A text that ends with * can mean a tag or a prefix, so it is refused.
    """
    if match is not None and match.endswith("*"):
        glob, tag = (msgspec.json.encode(["tag", op, match]).decode() for op in ("Glob", "Eq"))
        raise click.UsageError(
            f"--match {match} can mean a prefix or a tag: use '{glob}' for the prefix, or '{tag}' for the tag"
        )
    if match is None or not match.startswith("["):
        return match
    try:
        return msgspec.json.decode(match)
    except msgspec.MsgspecError as error:
        raise click.UsageError(f"invalid JSON in --match {match}: {error}") from error
