"""Signals: the problems of this instance as rows, each with its begin, its cause, and perhaps a silence.

A look finds the problems (problems.py) and stores the difference. A new problem opens a signal. A signal closes once its problem
was absent for CLOSES_MS, so a problem that comes and goes stays one signal. A look finds the problem of an open signal however
many others there are. The overview looks when it is drawn, and the task `console.judge` looks every 15 s, for the metrics and
TOPICS_SIGNALS_TOPIC. One look stores at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec
from django.conf import settings

from base.clock import now_ms
from console.health.cursors import Stuck
from console.health.problems import MOST_JUDGED, READY_MS, Findings, Problem, found, look
from console.health.processes import Sign
from queues.figures import WaitingQueues
from store.database import prepared
from store.script import Script, Statement, atomically, run
from topics import audit

LOCK = 7600  # an advisory lock of PostgreSQL: its holder stores what it found
CLOSES_MS = 60_000
KEEP_MS = 30 * 86_400_000  # of closed signals
MOST_CLOSED = 10  # in the list of those that closed
LONGEST_KEY, LONGEST_SUMMARY = 255, 1024  # characters that PagerDuty takes

COLUMNS = """id, kind, object, level, text, advice, url, act, because::text, since_ts, closed_ts, times, reason, silenced_by,
       coalesce(silenced_until_ts, 0)"""
BEGIN = f"SELECT pg_try_advisory_xact_lock({LOCK}), set_config('synchronous_commit', 'off', true)"
JUDGEMENT = "SELECT place::text FROM console_judgement WHERE id = 1"
PLACE = """
INSERT INTO console_judgement AS last (id, place) VALUES (1, %(place)s::jsonb)
    ON CONFLICT (id) DO UPDATE SET place = excluded.place WHERE last.place <> excluded.place
"""
GONE = f"""
UPDATE console_signal SET absent_ts = coalesce(absent_ts, %(now)s),
       closed_ts = CASE WHEN absent_ts <= %(now)s::bigint - %(closes_ms)s::bigint THEN absent_ts END
 WHERE closed_ts IS NULL AND NOT (kind, object) IN (SELECT * FROM unnest(%(kinds)s::text[], %(objects)s::text[]))
   AND (absent_ts IS NULL OR absent_ts <= %(now)s::bigint - %(closes_ms)s::bigint)
RETURNING {COLUMNS}
"""
# A new signal of a problem that is still silenced stays silenced. The latest signal tells it: an operator ended only its silence.
FOUND = f"""
INSERT INTO console_signal AS signal (kind, object, level, text, advice, url, act, because, since_ts, opened_ts, times, reason,
                                      silenced_by, silenced_until_ts)
SELECT new.kind, new.object, new.level, new.text, new.advice, new.url, new.act, new.because, coalesce(new.since_ts, %(now)s),
       %(now)s, 1, coalesce(silence.reason, ''), coalesce(silence.silenced_by, ''), silence.silenced_until_ts
  FROM jsonb_to_recordset(%(found)s::jsonb) AS new (kind text, object text, level text, text text, advice text, since_ts bigint,
                                                    url text, act text, because jsonb)
  LEFT JOIN LATERAL (SELECT reason, silenced_by, silenced_until_ts FROM console_signal
                      WHERE kind = new.kind AND object = new.object
                      ORDER BY id DESC LIMIT 1) silence ON silence.silenced_until_ts > %(now)s
    ON CONFLICT (kind, object) WHERE closed_ts IS NULL DO UPDATE
   SET level = excluded.level, text = excluded.text, advice = excluded.advice, url = excluded.url, act = excluded.act,
       because = excluded.because, since_ts = least(signal.since_ts, excluded.since_ts), absent_ts = NULL,
       times = signal.times + (signal.absent_ts IS NOT NULL)::int
 WHERE (signal.level, signal.text, signal.advice, signal.because) IS DISTINCT FROM
       (excluded.level, excluded.text, excluded.advice, excluded.because) OR signal.absent_ts IS NOT NULL
RETURNING {COLUMNS}, xmax = 0
"""
TOLD = "SELECT object FROM console_signal WHERE closed_ts IS NULL"
OPEN = f"""
SELECT {COLUMNS} FROM console_signal WHERE closed_ts IS NULL AND absent_ts IS NULL ORDER BY level, since_ts, id
"""
CLOSED = f"""
SELECT {COLUMNS} FROM console_signal WHERE closed_ts > %(since)s::bigint ORDER BY closed_ts DESC LIMIT {MOST_CLOSED + 1}
"""
ONE = f"SELECT {COLUMNS} FROM console_signal WHERE id = %s"
SILENCE = """
UPDATE console_signal SET silenced_until_ts = %(until)s, reason = %(reason)s, silenced_by = %(by)s WHERE id = %(id)s
"""
EMIT = "SELECT topics.emit(%(topic)s, %(data)s::json, tag => %(tag)s)"
DROP_OLD = "DELETE FROM console_signal WHERE closed_ts < %s"


class NextLook(msgspec.Struct):
    """Where the next look continues: the last queue and cursor that were judged, those that were found, and whether all were."""

    queues: tuple[str, list[str], bool] = ("", [], False)
    cursors: tuple[int, list[int], bool] = (0, [], False)


class StoredSignal(NamedTuple):
    """A stored problem. `times`: how often it came, since it opened. `silenced_until_ts`: 0 if it was never silenced."""

    id: int
    kind: str
    object: str
    level: str
    text: str
    advice: str
    url: str
    act: str
    because: str  # a JSON array of objects
    since_ts: int
    closed_ts: int | None
    times: int
    reason: str
    silenced_by: str
    silenced_until_ts: int

    @property
    def is_silenced(self) -> bool:
        return self.silenced_until_ts > now_ms()


class Cause(NamedTuple):
    """A signal, and the signals that it explains."""

    signal: StoredSignal
    effects: list[StoredSignal]


def judge(processes: list[Sign], now: int) -> tuple[Findings, bool]:
    """Looks for problems, and stores them. Returns what it saw, and whether every queue and cursor was judged by now."""
    rows = prepared(JUDGEMENT, ())
    place = msgspec.json.decode(rows[0][0], type=NextLook) if rows else NextLook()
    told = {object for (object,) in prepared(TOLD, ())}
    queues, stuck = WaitingQueues(READY_MS, MOST_JUDGED), Stuck()
    queues.after, queues.known, queues.is_whole = place.queues
    stuck.after, stuck.known, stuck.is_whole = place.cursors
    seen = look(processes, queues, stuck, told, now)
    reached = NextLook((queues.after, queues.known, queues.is_whole), (stuck.after, stuck.known, stuck.is_whole))
    run(atomically(store(list(found(seen, told, now)), reached, now)))
    return seen, queues.is_whole and stuck.is_whole


def store(problems: list[Problem], place: NextLook, now: int) -> Script[None]:
    """Stores what a look found, unless another one stores at this moment."""
    ((is_ours, _),) = yield Statement(BEGIN)
    if not is_ours:
        return
    yield Statement(PLACE, {"place": msgspec.json.encode(place).decode()})
    known = {"kinds": [each.kind for each in problems], "objects": [each.object for each in problems]}
    gone = yield Statement(GONE, {**known, "now": now, "closes_ms": CLOSES_MS})
    yield from tell("closed", [each for each in (StoredSignal(*row) for row in gone) if each.closed_ts])
    if problems:
        rows = {(each.kind, each.object): each._asdict() for each in problems}
        changed = yield Statement(FOUND, {"found": msgspec.json.encode(list(rows.values())).decode(), "now": now})
        yield from tell("open", [StoredSignal(*row) for *row, is_new in changed if is_new])


def tell(state: Literal["open", "closed"], signals: list[StoredSignal]) -> Script[None]:
    """Emits a record for each signal that is not silenced, in the transaction of its change, to TOPICS_SIGNALS_TOPIC.

    The outbox takes it: a full topic, or one that cannot be appended to, keeps no signal from being stored.
    """
    topic = settings.TOPICS_SIGNALS_TOPIC
    for each in [each for each in signals if topic and not each.is_silenced]:
        said = f"{each.text} {each.advice}".strip() if state == "open" else f"Over: {each.text}"
        shown = {name: getattr(each, name) for name in ("kind", "object", "level", "advice", "since_ts", "closed_ts")}
        data = {"text": said, "state": state, **shown, "page": each.url, **event_of(each, state, said)}
        yield Statement(EMIT, {"topic": topic, "data": msgspec.json.encode(data).decode(), "tag": each.kind})


def event_of(signal: StoredSignal, state: Literal["open", "closed"], said: str) -> dict[str, Any]:
    """Returns the fields of PagerDuty's Events API v2. The end of a problem has the same `dedup_key` as its begin."""
    severity = "error" if signal.level == "bad" else "warning"
    return {
        "event_action": "trigger" if state == "open" else "resolve",
        "dedup_key": f"{signal.kind}: {signal.object}"[:LONGEST_KEY],
        "payload": {"summary": said[:LONGEST_SUMMARY], "source": signal.object, "severity": severity},
    }


def read(statement: str, arguments: Any = ()) -> list[StoredSignal]:
    return [StoredSignal(*row) for row in prepared(statement, arguments)]


def open_signals() -> list[StoredSignal]:
    """Returns the signals whose problems the last look found: the worst and then the oldest first."""
    return read(OPEN)


def closed_signals(since: int) -> list[StoredSignal]:
    """Returns the last signals that closed since a time, at most one more than MOST_CLOSED."""
    return read(CLOSED, {"since": since})


def signal(id: int) -> StoredSignal | None:
    return next(iter(read(ONE, (id,))), None)


def by_cause(signals: Iterable[StoredSignal]) -> list[Cause]:
    """Returns the causes in the order of the signals, each with its effects.

    A signal is the effect of one that is about an object in its `because`. If no signal is about that object, the first of those
    that name it stands for all.
    """
    every = list(signals)
    about: dict[str, StoredSignal] = {}
    for each in every:
        about.setdefault(each.object, each)
    explained = {each.id: explanation(each, about) for each in every}
    for each in every:
        if explained[each.id] is None:
            shared = (about.setdefault(object, each) for object in named(each))
            explained[each.id] = next((other for other in shared if other.id != each.id), None)
    causes: dict[int, Cause] = {}
    for each in every:
        root = root_of(each, explained)
        cause = causes.setdefault(root.id, Cause(root, []))
        if root.id != each.id:
            cause.effects.append(each)
    return list(causes.values())


def named(signal: StoredSignal) -> list[str]:
    return msgspec.json.decode(signal.because, type=list[str])


def explanation(signal: StoredSignal, about: dict[str, StoredSignal]) -> StoredSignal | None:
    """Returns the first signal about an object that would explain this one."""
    return next((about[object] for object in named(signal) if object in about and object != signal.object), None)


def root_of(signal: StoredSignal, explained: dict[int, StoredSignal | None]) -> StoredSignal:
    """Follows the explanations to a signal without one. Of signals that explain each other in a circle, it is the first."""
    passed: dict[int, StoredSignal] = {}
    while signal.id not in passed:
        passed[signal.id] = signal
        signal = explained[signal.id] or signal
    ids = list(passed)
    return passed[min(ids[ids.index(signal.id) :])]


def silence(chosen: StoredSignal, until_ts: int, reason: str, by: str) -> None:
    """Silences a signal until a time (0: ends its silence). It stays open, and the audit log has the reason."""
    run(atomically(silence_noted(chosen, until_ts, reason, by)))


def silence_noted(chosen: StoredSignal, until_ts: int, reason: str, by: str) -> Script[None]:
    yield Statement(SILENCE, {"id": chosen.id, "until": until_ts or None, "reason": reason, "by": by})
    before = {"silenced_until_ts": chosen.silenced_until_ts, "reason": chosen.reason}
    name = f"{chosen.kind}: {chosen.object}"
    yield from audit.note("change", "signal", name, before, {"silenced_until_ts": until_ts, "reason": reason})


def drop_old(now: int) -> None:
    """Deletes the signals that closed long ago."""
    prepared(DROP_OLD, (now - KEEP_MS,))
