"""Celery beat's scheduler: uses the monotonic clock, needs no file, and runs in one beat at a time.

Celery's own scheduler uses the time of day: a clock that was set back by an hour stopped the schedule for an hour. Celery's own
scheduler also stores the last runs. This scheduler stores nothing, because all tasks of settings.CELERY_BEAT_SCHEDULE can run
at the start of beat.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import celery.beat
import psycopg
import redis
from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

from base import outage, redis_client
from console.health import heartbeat
from store.sessions import connect
from topics_project.operations.old_queues import task_of

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0  # between two checks for the turn, so that a lost turn is noticed and a free turn is taken
# The newest messages of a queue, among which beat looks for an entry's last one. Without a worker or a push process nobody takes
# messages, and they would fill Redis without end.
RECENT = 100
LOCK = 7100  # an advisory lock of PostgreSQL; beat holds the lock while beat runs, so no other code may use the number
# PostgreSQL ends the session of a beat that hangs or was stopped. The turn ends with the session.
IDLE = "SET idle_session_timeout = '10s'"


class SchedulingTurn:
    """The right to schedule: a PostgreSQL lock in a session of its own.

    A lease in Redis would depend on the time of day. Without PostgreSQL beat's tasks are useless anyway. Beat can lose the turn
    between ours() and the sending, so two beats can briefly send at once. Duplicates are harmless, because every task is a
    bounded step that several workers can run at once. The lock only makes duplicates rare.
    """

    def __init__(self) -> None:
        self.session: psycopg.Connection[Any] | None = None
        self.held = False

    def ours(self) -> bool:
        """Returns whether this beat has the turn. Called once per tick. Takes a free turn."""
        had = self.held
        try:
            self.held = self.look()
        except psycopg.Error as error:
            outage.postgresql.note(error)
            self.release()
        if self.held != had:
            log.warning("This beat schedules from now on" if self.held else "This beat stopped scheduling")
        return self.held

    def look(self) -> bool:
        if self.session is None:
            self.session = connect(application_name="topics beat")
            self.session.execute(IDLE)
        if self.held:
            self.session.execute("SELECT")  # fails if the session ended
            return True
        row = self.session.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
        return bool(row and row[0])

    def release(self) -> None:
        self.held = False
        if self.session is not None:
            self.session.close()
            self.session = None


def recent_tasks() -> set[str | None]:
    """Returns the tasks of the newest messages that wait in our queues. Raises RedisError."""
    queues = {settings.CELERY_TASK_DEFAULT_QUEUE, *(route["queue"] for route in settings.CELERY_TASK_ROUTES.values())}
    with redis_client.shared(settings.REDIS_URL).pipeline(transaction=False) as pipeline:
        for queue in queues:
            pipeline.lrange(f"{settings.TOPICS_REDIS_PREFIX}{queue}", 0, RECENT - 1)
        return {task_of(message) for messages in pipeline.execute() for message in messages}


class Scheduler(celery.beat.Scheduler):
    """Sends each entry when its interval has passed, measured by time.monotonic(), unless its last message still waits."""

    max_interval = LOOK_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.turn = SchedulingTurn()
        self.due: dict[str, float] = {}  # when to send each entry again; a missing entry is due now
        self.ticking, self.ending = False, False
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        self.merge_inplace(self.app.conf.beat_schedule)

    def tick(self, *_: Any, **__: Any) -> float:
        """Sends the due entries.

        Returns the seconds until the next tick. Raises SystemExit if a signal arrived during the tick.
        """
        self.ticking = True
        seconds = self.send_due()
        self.ticking = False
        if self.ending:
            raise SystemExit
        return seconds

    def send_due(self) -> float:
        if not self.turn.ours():
            self.due.clear()
            return LOOK_SECONDS
        now = time.monotonic()
        due = {name: entry for name, entry in self.schedule.items() if self.due.get(name, now) <= now}
        try:
            waiting = recent_tasks() if due else ()
        except redis.RedisError as error:
            outage.redis.note(error)
            return LOOK_SECONDS  # the entries stay due
        for name, entry in due.items():
            self.due[name] = now + entry.schedule.run_every.total_seconds()
            if entry.task not in waiting:
                self.apply_entry(entry, producer=self.producer)
        return min(LOOK_SECONDS, min(self.due.values(), default=now) - time.monotonic())

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Sends a message. If Redis takes none, the entry's next turn sends another."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except celery.beat.SchedulingError as error:
            if isinstance(error.__context__, BrokerError | redis.RedisError):
                outage.redis.note(error.__context__)
            else:
                log.exception("Beat could not send %s", entry.task)

    def end(self, *_: Any) -> None:
        """Handles a signal to exit.

        A signal can interrupt a tick at any line, for example while a lock is held that the exit needs. So the tick finishes
        first.
        """
        self.ending = True
        if not self.ticking:
            raise SystemExit

    def close(self) -> None:
        """Frees the turn for another beat, and deletes the heartbeat, because beat ends as it should."""
        self.turn.release()
        heartbeat.process.say_goodbye()
        super().close()
