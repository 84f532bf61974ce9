"""`topics redrive`: POST …/redrive until all chosen dead letters are examined (docs/queues.md)."""

from __future__ import annotations

from typing import Any

import click

from base.refusal import Refusal
from base.units import counted
from shell.answers import print_json
from shell.calls.topics import predicate
from shell.command import TOPIC, CommandConnection, confirm, prints_answer, seqs
from shell.server import CommandServer, ask, path

MOST_LETTERS = 1_000  # of one call


@click.argument("topic", metavar="NAME", type=TOPIC)
@click.option("--queue", metavar="NAME", help="move the letters of this queue alone (default: of all queues)")
@click.option("--match", metavar="TAG", help='only letters with this tag, or a predicate: ["tag", "Glob", "order:*"]')
@seqs("move the letter with this seq")
@click.option("--appended-by", metavar="NODE", help="move the letters of jobs that this node appended")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="most letters to move (default: all)")
@click.option("--dry-run", is_flag=True, help="count the letters, and change nothing")
@click.option("-y", "--yes", is_flag=True, help="move without asking")
@prints_answer
def redrive(
    connection: CommandConnection,
    topic: str,
    match: str | None,
    limit: int | None,
    dry_run: bool,
    yes: bool,
    is_json: bool,
    **chosen: Any,
) -> None:
    """Move dead letters back to the queues that they come from. Their deliveries start again."""
    body = {name: value for name, value in {**chosen, "match": predicate(match)}.items() if value}
    if not (yes or dry_run):
        confirm(lambda: question(moved(connection.server, topic, {**body, "dry_run": True}, limit)["queues"]))
    done = moved(connection.server, topic, {**body, "dry_run": dry_run}, limit)
    if is_json:
        print_json(done)
    else:
        for queue, count in done["queues"].items():
            click.echo(f"{counted(count, 'letter')} {'would move' if dry_run else 'moved'} to {queue}")
        if not done["moved"]:
            click.echo("no letter moved")
    if done["skipped"]:
        raise Refusal(
            "; ".join(
                f"{counted(len(each['seqs']), 'letter')} cannot move: {each['message']}" for each in done["skipped"]
            )
        )


def question(counts: dict[str, int]) -> str:
    told = ", ".join(f"{counted(count, 'letter')} to {queue}" for queue, count in counts.items())
    return f"Move {told or 'no letter'}?"


def moved(server: CommandServer, topic: str, body: dict[str, Any], limit: int | None) -> dict[str, Any]:
    """Moves letters, or counts them. Returns the sum of the answers. With the limit None, it moves all letters."""
    queues: dict[str, int] = {}
    skipped: dict[tuple[str, str], dict[str, Any]] = {}
    from_seq, left = 0, limit
    while left is None or left > 0:
        most = MOST_LETTERS if left is None else min(left, MOST_LETTERS)
        answer = ask(
            server, "POST", path("topics", topic, "redrive"), None, {**body, "from_seq": from_seq, "limit": most}
        )
        for queue, count in answer["queues"].items():
            queues[queue] = queues.get(queue, 0) + count
        for each in answer["skipped"]:
            skipped.setdefault((each["queue"], each["code"]), {**each, "seqs": []})["seqs"] += each["seqs"]
        if answer["caught_up"]:
            break
        from_seq, left = answer["next_from_seq"], None if left is None else left - answer["moved"]
    return {
        "topic": topic,
        "moved": sum(queues.values()),
        "queues": queues,
        "skipped": list(skipped.values()),
        "dry_run": body["dry_run"],
    }
