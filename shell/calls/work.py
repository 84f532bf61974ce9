"""`topics work` (docs/queues.md)."""

from __future__ import annotations

import os
import signal
import socket
import sys

import click

from shell.command import TOPIC, CommandConnection
from shell.working import Worker


@click.argument("topic", metavar="NAME", type=TOPIC)
@click.argument("command", metavar="-- COMMAND", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--node", help="name of this worker (default: the host's name and the process id)")
@click.option(
    "--parallel", type=click.IntRange(1, 1000), default=1, metavar="N", help="commands at the same time (default 1)"
)
@click.option(
    "--delay-ms",
    type=click.IntRange(0, 86_400_000),
    default=1000,
    metavar="MS",
    help="time until a failed job is ready again (default 1000)",
)
@click.option("--once", is_flag=True, help="end when no job is ready")
@click.pass_obj
def work(
    connection: CommandConnection,
    topic: str,
    command: tuple[str, ...],
    node: str | None,
    parallel: int,
    delay_ms: int,
    once: bool,
) -> None:
    """Run a command for each job of a queue. The command gets the job's JSON as its input.

    A job is done if its command exits with 0. Otherwise the job comes back. The variables TOPICS_JOB_TOPIC, TOPICS_JOB_SEQ,
    TOPICS_JOB_TAG and TOPICS_JOB_DELIVERIES describe it.
    """
    name = node or f"{socket.gethostname()}-{os.getpid()}"
    worker = Worker(connection.server, topic, name, command, parallel, delay_ms, once=once)
    before = {number: signal.signal(number, worker.stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        worker.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if worker.stopped_by:
        sys.exit(128 + worker.stopped_by)  # as a shell reports a process that a signal ended
