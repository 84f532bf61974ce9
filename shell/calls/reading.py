"""`topics tail`, `export`, `ls` and `usage`."""

from __future__ import annotations

import sys

import click

from base.errors import TopicsError
from shell import reading
from shell.answers import print_listed
from shell.calls.append import encoding
from shell.calls.topics import predicate
from shell.command import SEQ, TOPIC, CommandConnection, prints_answer
from shell.follower import Follower
from shell.lines import Shape
from shell.printing import PrintedTail, line_of, say
from shell.progress import Progress
from shell.server import listed, path
from shell.table import Column

TOPICS = (
    Column("RECORDS", "count", ">14"),
    Column("BYTES", "bytes", ">16"),
    Column("EARLIEST", "earliest_seq", ">14"),
    Column("HEAD", "head_seq", ">14"),
    Column("FSYNC", "durable", "5"),
    Column("NAME", "topic", ""),
)

whole = click.option("--records", is_flag=True, help="print whole records: $seq, $ts, $node, $tag, meta, data")
matching = click.option(
    "--match", metavar="TAG", help='only records with this tag, or a predicate: ["tag", "Glob", "order:*"]'
)
raw_lines = click.option("--raw-lines", is_flag=True, help="print JSON strings as text")


@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=TOPIC)
@click.option(
    "-f", "--follow", is_flag=True, help="print new records, too, until Ctrl-C. Wait for topics that do not exist yet"
)
@click.option("-n", "--lines", type=SEQ, default=10, metavar="N", help="number of last records (default 10)")
@matching
@whole
@raw_lines
@encoding
@click.pass_obj
def tail(
    connection: CommandConnection,
    names: tuple[str, ...],
    follow: bool,
    lines: int,
    match: str | None,
    records: bool,
    raw_lines: bool,
    encoding: str,
) -> None:
    """Print the last records of topics, and with -f also new records."""
    server = connection.server
    printed = PrintedTail(len(set(names)) > 1, line_of(records, Shape(raw_lines, encoding)), sys.stdout.buffer)
    wanted, awaited = predicate(match), []
    for name in dict.fromkeys(names):
        try:
            found, printed.seqs[name] = reading.last(server, name, lines, wanted)
        except TopicsError as error:
            if not follow or error.code != "topic_not_found":
                raise
            say(f"{error.message} yet: waiting for it")
            awaited.append(name)
        else:
            printed.print(name, found)
    if follow:
        server.follow(Follower(printed, awaited, wanted))


@click.argument("topic", metavar="NAME", type=TOPIC)
@click.option("--from-seq", type=SEQ, default=0, metavar="SEQ", help="start after this seq (default 0)")
@matching
@whole
@raw_lines
@encoding
@click.pass_obj
def export(
    connection: CommandConnection,
    topic: str,
    from_seq: int,
    match: str | None,
    records: bool,
    raw_lines: bool,
    encoding: str,
) -> None:
    """Print all records of a topic as lines."""
    progress = Progress()
    line = line_of(records, Shape(raw_lines, encoding))
    written, tick = sys.stdout.buffer, lambda number: progress.tick(0, number)
    try:
        reading.export(connection.server, topic, from_seq, predicate(match), line, written, tick)
    finally:
        progress.clear()


@click.argument("prefix", metavar="[PREFIX]", default="", type=TOPIC)
@click.option("-q", "--quiet", is_flag=True, help="names only")
@prints_answer
def ls(connection: CommandConnection, prefix: str, quiet: bool, is_json: bool) -> None:
    """List the topics whose names start with PREFIX. FSYNC: whether an append waits for the disk."""
    if quiet and is_json:
        raise click.UsageError("--quiet and --json exclude each other: choose one")
    found = listed(connection.server, path("topics"), "topics", {"prefix": prefix})
    if quiet:
        for topic in found:
            click.echo(topic["topic"])
    else:
        print_listed(TOPICS, found, is_json)


@click.pass_obj
def usage(connection: CommandConnection) -> None:
    """Show how many records are stored, how many the topics show, and which topics keep the rest."""
    connection.only_local()
    from shell.usage import lines  # needs Django

    for line in lines():
        click.echo(line)
