"""Celery beat's scheduler: by a clock that nobody sets, without a file, and one beat at a time.

Celery's own counts in the time of day: set back by an hour, the clock stopped it for an hour. It also writes down what
it sent, which nobody needs: all of settings.CELERY_BEAT_SCHEDULE may as well run at once when beat starts.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import celery.beat
import psycopg
from django.conf import settings

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0  # between two looks whether it is our turn; so a lost turn is noticed, and a free one taken
LOCK = 7100  # of PostgreSQL's advisory locks; it is held for as long as beat runs, so nobody else may want this one
# PostgreSQL ends the session, and with it the turn, of a beat that hangs or was stopped.
IDLE = "SET idle_session_timeout = '10s'"
# A host that is gone says nothing: the session is given up as well.
LIMITS: dict[str, Any] = {
    "application_name": "topics beat",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}


class Turn:
    """Whether this beat is the one that schedules: it holds a lock of PostgreSQL in a session of its own.

    Not a lease in Redis: that counts in the time of day, and what beat sends is of no use without PostgreSQL anyway.
    The turn may be lost between ours() and what is sent then, so that for a moment two beats send. That is harmless:
    every task is a bounded step that any number of workers may do at once. The lock keeps it from becoming the rule.
    """

    def __init__(self) -> None:
        self.session: psycopg.Connection[Any] | None = None
        self.held = False

    def ours(self) -> bool:
        """Ask PostgreSQL, once a tick: take the turn if it is free, or see that it is still ours."""
        had = self.held
        try:
            self.held = self.look()
        except psycopg.Error as error:
            if self.session is not None or had:
                log.warning("beat waits for PostgreSQL: %s", str(error).strip().partition("\n")[0])
            self.release()
        if self.held != had:
            log.warning("this beat schedules from now on" if self.held else "this beat schedules no more")
        return self.held

    def look(self) -> bool:
        if self.session is None:
            self.session = psycopg.connect(settings.DATABASE_URL, autocommit=True, **LIMITS)
            self.session.execute(IDLE)
        if self.held:
            self.session.execute("SELECT")  # it fails where the session ended
            return True
        row = self.session.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
        return bool(row and row[0])

    def release(self) -> None:
        self.held = False
        if self.session is not None:
            self.session.close()
            self.session = None


class Scheduler(celery.beat.Scheduler):
    """Sends each entry when its seconds are over, as time.monotonic() counts them."""

    max_interval = LOOK_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.turn = Turn()
        self.due: dict[str, float] = {}  # when each entry is sent again; one that is not in here, now
        self.ticking, self.ending = False, False
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        self.merge_inplace(self.app.conf.beat_schedule)

    def tick(self, *_: Any, **__: Any) -> float:
        """Send what is due. Returns the seconds until the next tick. Raises SystemExit where a signal came meanwhile."""
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
        for name, entry in self.schedule.items():
            if self.due.get(name, now) <= now:
                self.due[name] = now + entry.schedule.run_every.total_seconds()
                self.apply_entry(entry, producer=self.producer)
        return min(LOOK_SECONDS, min(self.due.values(), default=now) - time.monotonic())

    def end(self, *_: Any) -> None:
        """A signal asks for the end. Amid a tick it may have come anywhere, also where a lock is held that is needed to
        end, or where no exception is let through: the tick is finished first."""
        self.ending = True
        if not self.ticking:
            raise SystemExit

    def close(self) -> None:
        self.turn.release()
        super().close()
