"""`topics mirror` (docs/guides/mirror.md)."""

from __future__ import annotations

import re
import signal
import sys
from types import FrameType

import click

from base.refusal import Refusal
from shell.command import TOPIC, CommandConnection
from shell.flow import Address
from shell.mirroring import Mirror
from shell.printing import say

SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", re.ASCII)


@click.argument("there_url", metavar="URL", envvar="TOPICS_MIRROR_URL")
@click.argument("topics", metavar="[NAME]...", nargs=-1, type=TOPIC, envvar="TOPICS_MIRROR_TOPICS")
@click.option(
    "--prefix",
    "prefixes",
    multiple=True,
    envvar="TOPICS_MIRROR_PREFIX",
    help="mirror topics with this beginning. You can repeat the option",
)
@click.option("--here", envvar="TOPICS_MIRROR_HERE", required=True, metavar="SITE", help="name of the site at --url")
@click.option("--there", envvar="TOPICS_MIRROR_THERE", required=True, metavar="SITE", help="name of the site at URL")
@click.option(
    "--there-key",
    envvar="TOPICS_MIRROR_KEY",
    metavar="SECRET",
    help="API key for URL. Prefer the variable TOPICS_MIRROR_KEY",
)
@click.option("--one-way", is_flag=True, help="mirror from --url to URL alone (default: both ways)")
@click.option("--once", is_flag=True, help="end when all records are mirrored (default: run until Ctrl-C)")
@click.pass_obj
def mirror(
    connection: CommandConnection,
    there_url: str,
    topics: tuple[str, ...],
    prefixes: tuple[str, ...],
    here: str,
    there: str,
    there_key: str | None,
    one_way: bool,
    once: bool,
) -> None:
    """Mirror topics between the server at --url and the server at URL, both ways.

    Each record arrives once, also after a kill at any moment. The keys need the scopes read, write and commit.
    """
    if connection.url is None:
        raise Refusal("a mirror needs two servers: give --url or TOPICS_URL, too")
    if not topics and not prefixes:
        raise click.UsageError("name at least one topic, or give --prefix")
    for option, site in (("--here", here), ("--there", there)):
        if not SITE.fullmatch(site):
            raise Refusal(
                f"invalid {option} {site!r}: expected 1 to 128 of A-Z a-z 0-9 . _ : - with a letter or digit first"
            )
    if here == there:
        raise Refusal("--here and --there are equal: choose two names for the two sites")
    ends = Address(here, connection.url, connection.key), Address(there, there_url, there_key)
    running = Mirror(*ends, topics, prefixes, one_way=one_way, once=once)
    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        running.stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        running.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if signals:
        say("stopped, and stored all positions")
    if signal.SIGINT in signals:
        sys.exit(128 + signal.SIGINT)
