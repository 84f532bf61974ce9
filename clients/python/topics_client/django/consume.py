"""Runs handlers, each in threads of its own, until the process is told to stop.

If topics is in a database of this project, the rows of a handler are one commit with its position, or with the ack of its job. If
the process is killed anywhere, PostgreSQL rolls back all of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from django.db import close_old_connections, connections, transaction

from topics_client.django.handlers import Handler
from topics_client.django.places import connection, database, server
from topics_client.django.states import beat, failed
from topics_client.following import tell
from topics_client.group import Group
from topics_client.jobs import Policy, doubled
from topics_client.records import Job, Streamed, Tombstone
from topics_client.script import LONGEST_PAUSE, backoff
from topics_client.signals import on_signal
from topics_client.tracing import consumed
from topics_client.worker import Worker, new_node

log = logging.getLogger("topics_client.django")
MOST_RECORDS = 100  # of a transaction
IDLE_SECONDS = 0.2  # between looks for records and jobs
STANDBY_SECONDS = 1.0  # between looks whether the process that has the turn is gone
TURN = "SELECT pg_try_advisory_xact_lock(hashtext('topics_consume'), hashtext(%s))"
POSITION = "SELECT topics.read_cursor(%s, %s)"
READ = "SELECT seq, ts, data, tag, node, meta, reason, gap_from FROM topics.read(%s, %s, %s)"
COMMIT = "SELECT topics.commit_cursor(%s, %s, %s, %s)"
CLAIM = "SELECT seq, ts, lease_id::text, deadline, deliveries, data, tag, meta FROM topics.claim(%s, %s, 1, %s)"
ACK = "SELECT settled FROM topics.ack(%s, %s, ARRAY[%s])"
NACK = "SELECT settled FROM topics.nack(%s, %s, ARRAY[%s], delay_ms => %s, error => %s)"


class LeaseEnded(Exception):
    """Another worker can have the job."""


def run(chosen: Iterable[Handler]) -> None:
    """Runs handlers until SIGTERM or SIGINT: then the running functions end, and everything else is given back.

    An error, for example without a free thread, ends the handlers in the same way, and is raised when they have ended.
    """
    stopping = threading.Event()
    stops: list[Callable[[], None]] = []  # of what waits for the server
    chosen = list(chosen)
    # A second signal ends the process, which would wait for threads that are no daemons.
    threads = [threading.Thread(target=beat, args=(chosen, stopping), name="beat", daemon=True)]
    for handler in chosen:
        if database() is None:
            step, count = step_over_http(handler, stops, stopping), 1
        elif handler.group:
            step, count = step_of_topic(handler), 1
        else:
            step, count = partial(do_next, handler, new_node()), handler.concurrency
        arguments = (step, handler, stopping)
        threads += [
            threading.Thread(target=repeat, args=arguments, name=handler.name, daemon=True) for _ in range(count)
        ]

    def stop() -> None:
        stopping.set()
        for each in list(stops):
            each()

    def wait() -> None:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)  # a signal that comes just before a wait is handled after it
                if stopping.is_set():
                    stop()  # a loop that began just now has not heard the first call

    with on_signal(stop):
        try:
            for thread in threads:
                thread.start()
            wait()
        except Exception:
            stop()
            wait()
            raise


def step_over_http(handler: Handler, stops: list[Callable[[], None]], stopping: threading.Event) -> Callable[[], float]:
    """Returns a call that works until it is stopped, or until the function of a group raises."""

    def step() -> float:
        with server() as topics:
            topic = topics.topic(handler.topic)
            if handler.group:
                loop: Group[Any] | Worker[Any] = topic.group(handler.group, on_loss=handler.on_loss)
            else:
                loop = topic.worker(concurrency=handler.concurrency, lease_ms=handler.lease_ms)
            stops.append(loop.stop)
            try:
                if stopping.is_set():
                    return 0
                if isinstance(loop, Group):
                    for record in loop:
                        with consumed(record):
                            handler.function(record)
                else:
                    loop(noting(handler))
                    loop.run()
            finally:
                stops.remove(loop.stop)
        return 0

    return step


def noting(handler: Handler) -> Callable[[Any], Any]:
    """Returns the function of jobs, which notes an error before the worker gives the job back."""

    def function(job: Any) -> None:
        try:
            handler.function(job)
        except Exception as error:
            failed(handler, error)
            raise

    return function


def repeat(step: Callable[[], float], handler: Handler, stopping: threading.Event) -> None:
    """Calls `step`, which returns the seconds until the next call. After an error the pause grows."""
    tries = 0
    while not stopping.is_set():
        try:
            pause = step()
        except Exception as error:
            log.exception("%s failed. It tries again", handler.name)
            close_old_connections()
            failed(handler, error)
            pause, tries = min(LONGEST_PAUSE, backoff(tries + 2)), tries + 1
        else:
            tries = 0
        stopping.wait(pause)
    connections.close_all()


def step_of_topic(handler: Handler) -> Callable[[], float]:
    most = MOST_RECORDS

    def step() -> float:
        nonlocal most
        limit, most = most, 1  # after an error record by record, so that only the record that fails is undone
        pause = consume_next(handler, limit)
        most = min(MOST_RECORDS, limit * 2)
        return pause

    return step


def consume_next(handler: Handler, most: int) -> float:
    """Hands out the next records in one transaction with their commit. One process at a time does this for a handler."""
    with transaction.atomic(using=database()), connection().cursor() as cursor:
        cursor.execute(TURN, [handler.name])
        if cursor.fetchone() != (True,):
            return STANDBY_SECONDS
        cursor.execute(POSITION, [handler.topic, handler.group])
        (position,) = cursor.fetchone()
        cursor.execute(READ, [handler.topic, position, most])
        rows = cursor.fetchall()
        for seq, ts, data, tag, node, meta, reason, gap_from in rows:
            if reason is None:
                record = Streamed(seq=seq, ts=ts, data=data, tag=tag, node=node, meta=meta, topic=handler.topic)
                with consumed(record):
                    handler.function(record)
            else:
                lost = Tombstone(reason, gap_from, seq, seq + 1, rows[-1][0], seq - gap_from + 1, topic=handler.topic)
                tell(lost, handler.on_loss)
        if rows:
            cursor.execute(COMMIT, [handler.topic, handler.group, rows[-1][0], position])
        return 0 if len(rows) == most else IDLE_SECONDS


def do_next(handler: Handler, node: str) -> float:
    """Claims a job, and does it in one transaction with its ack."""
    with connection().cursor() as cursor:
        cursor.execute(CLAIM, [handler.topic, node, handler.lease_ms])
        row = cursor.fetchone()
        if row is None:
            return IDLE_SECONDS
        job: Job[Any] = Job(*row)
        try:
            with transaction.atomic(using=database()):
                with consumed(job, handler.topic):
                    handler.function(job)
                cursor.execute(ACK, [handler.topic, node, job.seq])
                if cursor.fetchone() != (True,):
                    raise LeaseEnded
        except LeaseEnded:
            log.warning("The lease of job %d of %s has ended: its changes are undone", job.seq, handler.topic)
        except Exception as error:
            log.exception("Job %d of %s failed. It comes back", job.seq, handler.topic)
            delay_ms, text = Policy(node, 1, handler.lease_ms, doubled).failure(job, error)
            cursor.execute(NACK, [handler.topic, node, job.seq, delay_ms, text])
            failed(handler, error)
    return 0
