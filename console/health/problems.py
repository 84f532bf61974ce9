"""The problems of this moment: each part that should deliver, forward, archive or serve, and does not.

A problem names the part, what it holds up, since when, and the page where an operator can act. signals.py stores the problems.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from django.conf import settings
from django.urls import reverse

from base.units import amount, counted, duration, sentence, waits
from console import gateways
from console.health.behind import Behind, held_up
from console.health.cursors import Stuck, StuckCursor
from console.health.processes import Sign
from console.history.samples import DAY_MS
from console.templatetags.console import router_url, schedules_url, topic_url, webhook_url
from groups.figures import GroupFigures, abandoned
from mirrors.sites import CURSOR as MIRROR
from outbox.captures import Captured, captured
from outbox.waiting import Stopped, oldest_ms, pause, stopped
from push.webhooks.figures import MOST_GIVEN_UP, GivenUp, ListedWebhook, given_up, troubled
from queues.figures import DeadLetters, QueueFigures, WaitingQueues, dead_letters
from store import disk
from store.database import prepared
from store.script import run

MOST = 8  # problems of each kind, beside those that were told. One more stands for all others
MOST_READ = 1000  # problems of each kind that one look reads
WAITED_MS = 60_000  # a subscriber without an error whose events wait for longer than this gets no events
READY_MS = 300_000  # a queue with a job that has been ready for longer has too few workers, or none
MOST_JUDGED = 20  # queues that one look judges, and most that it finds beside those that were told
UNMOVED_MS = 10_000  # an emitted record that no relay has moved for longer
OVERDUE_MS = 300_000  # a schedule that no worker started for so long after its time is overdue

ADVICE = {
    "worker": "Records are not forwarded in the background and do not expire. Start a worker. Its log says why it ended.",
    "push": "Callbacks get no events. Start push. Its log says why it ended.",
    "beat": "The sweep does not run. Start beat. Its log says why it ended.",
    "Redis": "Wake-ups are lost, so forwarding and streams lag by a second. Start Redis again.",
    "web": "A web process stopped answering. See the log of web.",
}
# Subscribers with queued events that get none: the last attempt failed, an operator paused them, or no push process sends.
NOT_DELIVERED = """
SELECT s.client_id, c.name, s.queue, s.paused, s.health, s.batch_attempts, s.last_error, q.records, q.oldest_ts
  FROM push_subscriber s JOIN push_busclient c ON c.id = s.client_id JOIN push_queues q ON q.client_id = s.client_id
 WHERE q.records > 0 AND q.oldest_ts IS NOT NULL
   AND (s.paused OR (s.batch_attempts > 0 AND s.last_error IS NOT NULL)
        OR q.oldest_ts < %(now)s::bigint - s.timeout_ms - %(waited_ms)s::bigint)
 ORDER BY s.paused, q.oldest_ts, s.client_id LIMIT %(most)s
"""
# Enabled schedules whose last run did not succeed, since their first such run. Then schedules that no worker starts.
NOT_RUN = """
SELECT s.id, s.job, s.options ->> 'topic', run.id, run.state, run.summary,
       coalesce((SELECT min(failed.started_ts) FROM pipeline_run failed
                  WHERE failed.job = s.job AND failed.options = s.options AND failed.started_ts >
                        coalesce((SELECT max(good.started_ts) FROM pipeline_run good
                                   WHERE good.job = s.job AND good.options = s.options AND good.state = 'done'), 0)), s.next_ts)
  FROM pipeline_schedule s LEFT JOIN pipeline_run run ON run.id = s.last_run_id
 WHERE s.enabled AND (run.state IN ('failed', 'wrong') OR (
       s.next_ts BETWEEN 1 AND %(now)s::bigint - %(overdue_ms)s::bigint AND run.state IS DISTINCT FROM 'running'))
 ORDER BY s.id LIMIT %(most)s
"""
# Queues that refuse the jobs of schedules. Uses an index on these schedules.
REFUSED = """
SELECT topic.name, refused.schedules, refused.since_ts, refused.error
  FROM (SELECT topic_id, count(*) AS schedules, min(due_ts) AS since_ts, max(error) AS error FROM queues_schedule
         WHERE error IS NOT NULL GROUP BY topic_id ORDER BY min(due_ts), topic_id LIMIT %(most)s) refused
  JOIN topics_topic topic ON topic.id = refused.topic_id ORDER BY refused.since_ts, topic.name
"""
# Since yesterday: the failed tasks, and the answers with a 5xx. Without a sample of the day (the workers were off, or an older
# backup was restored), the answers count from the last sample, because the total is of all time.
LAST_DAY = """
SELECT (SELECT count(*) FROM console_failure WHERE ts > %(day)s),
       greatest(errors.total - coalesce(
           (SELECT errors FROM console_sample
             WHERE kind = 'all' AND object_id = 0 AND ts > %(day)s ORDER BY ts LIMIT 1),
           (SELECT errors FROM console_sample
             WHERE kind = 'all' AND object_id = 0 AND ts <= %(day)s ORDER BY ts DESC LIMIT 1), errors.total), 0)
  FROM (SELECT coalesce(sum(value), 0)::bigint AS total FROM console_count WHERE name = 'errors') errors
"""


class Problem(NamedTuple):
    """A part that does not work. `kind` and `object` name the problem (`router blocked`, `router orders->audit`).

    `because`: objects whose own problem would explain this one. `since_ts`: None if the server does not know the begin. `act`:
    the text of the link.
    """

    kind: str
    object: str
    level: str
    text: str
    advice: str
    since_ts: int | None = None
    url: str = ""
    act: str = ""
    because: tuple[str, ...] = ()


class LastDay(NamedTuple):
    failures: int
    errors: int


class Findings(NamedTuple):
    """A look at the instance. `routers`: those that hold up records. `queues`: queues with jobs that wait. `stuck`: cursors that
    do not advance."""

    processes: list[Sign]
    routers: list[Behind]
    queues: list[QueueFigures]
    stuck: list[StuckCursor]
    day: LastDay


def look(processes: list[Sign], queues: WaitingQueues, stuck: Stuck, told: Collection[str], now: int) -> Findings:
    """Looks at the instance. `queues` and `stuck` judge their next part. `told`: objects with an open signal."""
    day = LastDay(*prepared(LAST_DAY, {"day": now - DAY_MS})[0])
    queues.told = named("topic ", told)
    routers = held_up(now, MOST_READ, named("router ", told))
    return Findings(processes, routers, run(queues.look(now)), stuck.look(now), day)


def named(kind: str, told: Collection[str]) -> list[str]:
    """Returns the names of the objects of a kind."""
    return [each.removeprefix(kind) for each in told if each.startswith(kind)]


def found(seen: Findings, told: Collection[str], now: int) -> Iterator[Problem]:
    """Yields all problems, of each kind those that `some` chooses."""
    yield from of_servers(seen.processes)
    yield from of_gateways()
    yield from of_routers(seen.routers, now, told)
    yield from of_subscribers(now, told)
    yield from of_webhooks(now, told)
    yield from of_jobs(now, told)
    yield from of_outbox(now, told)
    yield from of_captures(now, told)
    yield from of_groups(now, told)
    yield from of_queues(now, seen.queues, told)
    yield from of_cursors(seen.stuck, told)
    yield from of_the_last_day(seen.day)


def some(problems: Iterable[Problem], told: Collection[str], more: Problem) -> Iterator[Problem]:
    """Yields the first MOST problems, and those of objects with an open signal. Then yields `more` with the number of the others.

    Without those with an open signal, a signal would close while its problem lasts, as soon as MOST others come before it.
    """
    others = []
    for rank, each in enumerate(problems):
        if rank < MOST or each.object in told:
            yield each
        else:
            others.append(each)
    if others:  # at least so many, because a look reads some of each kind
        level = "bad" if any(each.level == "bad" for each in others) else "warn"
        yield more._replace(level=level, text=f"{more.text}: at least {amount(len(others))} more.")


def rest(kind: str, objects: str, text: str, page: str = "", advice: str = "") -> Problem:
    """Returns the problem that stands for those of a kind that `some` leaves out. `page`: the URL name of the list of all."""
    url, act = (reverse(page), f"Open the {objects}") if page else ("", "")
    return Problem(kind, f"more {objects}", "warn", text, advice, None, url, act)


def of_servers(processes: list[Sign]) -> Iterator[Problem]:
    """Yields a full disk, and the processes and servers without a heartbeat."""
    jobs = reverse("admin:console_tasks")
    if disk.full():
        text, advice = "The disk is full: appends are refused.", "Free space, or delete topics."
        yield Problem(
            "disk full", "disk", "bad", text, advice, None, reverse("admin:topics_topic_changelist"), "Delete topics"
        )
    silent = [each for each in processes if each.state != "ok"]
    for kind in dict.fromkeys(each.kind for each in silent):
        # One cause has one problem, however many processes of the kind it ended.
        ended = [each for each in silent if each.kind == kind]
        since_ts = max(each.seen_ts or 0 for each in ended) or None
        if any(each.kind == kind and each.state == "ok" for each in processes):
            text = f"{counted(len(ended), f'{kind} process')} stopped without a goodbye. Others run."
            level, advice = "warn", f"The log of {kind} says why it ended."
        else:
            level, text, advice = "bad", f"{kind} has no heartbeat.", ADVICE[kind]
        act = {"url": jobs, "act": "Open the processes"}
        yield Problem("process silent", f"process {kind}", level, text, advice, since_ts, **act)


def of_gateways() -> Iterator[Problem]:
    """Yields the gateways that do not answer, and those that serve a cluster without a live node."""
    if not settings.TOPICS_GATEWAYS:
        return
    for each in gateways.seen():
        act = {"url": reverse("admin:console_graph"), "act": "Open the gateways"}
        if each.failure:
            text = f"The gateway {each.name} does not answer."
            advice = f"{each.failure}. Check that it runs, and its address in TOPICS_GATEWAYS."
            yield Problem("gateway silent", f"gateway {each.name}", "bad", text, advice, each.failing_ts, **act)
        elif each.answer is not None and each.answer.degraded:
            text = f"The gateway {each.name} serves {', '.join(each.answer.degraded)} without a live node."
            advice = "Check the servers behind it."
            yield Problem("gateway degraded", f"gateway {each.name}", "bad", text, advice, None, **act)


def of_routers(routers: list[Behind], now: int, told: Collection[str] = ()) -> Iterator[Problem]:
    """Yields blocked, stalled and paused routers (console/health/behind.py) with records to forward."""
    more = rest("router held up", "routers", "Routers that hold up records", "admin:console_list_routers")
    yield from some((of_router(each, now) for each in routers), told, more)


def of_router(each: Behind, now: int) -> Problem:
    text = f"Router {each.name} is {each.state} and holds up {counted(each.lag, 'record')} for {each.dest}."
    why = "No record was forwarded for 10 s. Check that a worker runs."
    if each.last_error:
        why = sentence(each.last_error)
    if each.state == "paused":
        why = "An operator paused it. Resume it, or delete it."
    level = "bad" if each.state == "blocked" else "warn"
    since_ts = None if each.oldest_ms is None else now - each.oldest_ms
    # A blocked router waits for room in its dest, which what reads from the dest would make.
    because = {"blocked": (f"topic {each.dest}",), "stalled": ("process worker",)}.get(each.state, ())
    page = (router_url(each.name), "Open the router")
    return Problem(f"router {each.state}", f"router {each.name}", level, text, why, since_ts, *page, because)


def of_subscribers(now: int, told: Collection[str] = ()) -> Iterator[Problem]:
    """Yields the subscribers of the bus that have queued events and get none."""
    rows = prepared(NOT_DELIVERED, {"now": now, "waited_ms": WAITED_MS, "most": MOST_READ})
    more = rest("no delivery", "subscribers", "Subscribers that get no events", "admin:console_list_subscribers")
    yield from some((of_subscriber(*row) for row in rows), told, more)


def of_subscriber(
    id: int,
    name: str,
    queue: str,
    paused: bool,
    health: int,
    attempts: int,
    error: str | None,
    records: int,
    oldest_ts: int,
) -> Problem:
    text = f"Subscriber {name} gets no events. {waits(records, 'event')}."
    if paused:
        advice = "An operator paused it. Resume it, or drop its queue."
    elif error and attempts:
        advice = f"{counted(attempts, 'attempt')} failed, the last one with: {error}. Its health is {health} of 100."
    else:
        advice = "No attempt was made. Check that push runs."
    level = "warn" if paused else "bad"
    because = () if paused or (error and attempts) else ("process push",)
    act = {"url": reverse("admin:console_subscriber", args=[id]), "act": "Open the subscriber"}
    return Problem("no delivery", f"topic {queue}", level, text, advice, oldest_ts, **act, because=because)


def of_webhooks(now: int, told: Collection[str] = ()) -> Iterator[Problem]:
    """Yields failing and paused webhooks, and those that gave up records in the last day."""
    page = "admin:console_list_webhooks"
    more = rest("webhook failing", "webhooks", "Webhooks that fail, or are paused", page)
    yield from some((of_webhook(each) for each in run(troubled(MOST_READ))), told, more)
    more = rest("records given up", "webhooks", "Webhooks that gave up records in the last day", page)
    yield from some((of_given_up(each) for each in run(given_up(MOST_READ, now - DAY_MS))), told, more)


def of_webhook(each: ListedWebhook) -> Problem:
    object, page = f"webhook {each.name}", (webhook_url(each.name), "Open the webhook")
    if each.state == "paused":
        text = f"Webhook {each.name} is paused, and sends nothing."
        advice = f"{sentence(each.pause_reason or 'an operator paused it')} Resume it, or delete it."
        return Problem("webhook paused", object, "warn", text, advice, each.updated_ts, *page)
    text = f"The endpoint of webhook {each.name} fails."
    if each.waiting:
        text += f" {waits(each.waiting, 'record')} for another call."
    advice = f"{counted(each.failures, 'call')} in a row failed, the last one with: {each.last_error}."
    return Problem("webhook failing", object, "bad", text, advice, each.last_success_ts, *page)


def of_given_up(each: GivenUp) -> Problem:
    number = counted(each.records, "record")
    text = f"Webhook {each.webhook} gave up {'at least ' * (each.records == MOST_GIVEN_UP)}{number} in the last day."
    advice = "Its page has the reason beside each call. Repair the endpoint, and send them again."
    object, because = f"records of webhook {each.webhook}", (f"webhook {each.webhook}",)
    page = (webhook_url(each.webhook), "Open the webhook")
    return Problem("records given up", object, "warn", text, advice, each.first_ts, *page, because)


def of_jobs(now: int, told: Collection[str] = ()) -> Iterator[Problem]:
    """Yields the schedules of archives and other jobs whose last run failed, or that no worker starts."""
    rows = prepared(NOT_RUN, {"now": now, "overdue_ms": OVERDUE_MS, "most": MOST_READ})
    page = "admin:pipeline_schedule_changelist"
    more = rest("schedule failed", "schedules", "Schedules whose last run failed, or that no worker starts", page)
    yield from some((of_job(*row) for row in rows), told, more)


def of_job(
    id: int, job: str, topic: str | None, last: int | None, state: str | None, summary: str | None, since_ts: int
) -> Problem:
    what = f"The schedule {job} of {topic}" if topic else f"The schedule {job} {id}"
    if state in ("failed", "wrong"):
        url, act = reverse("admin:pipeline_run_change", args=[last]), "Open the run"
        text = f"{what} {'failed' if state == 'failed' else 'found something wrong'}."
        advice = f"{summary}. The next run tries again."
        return Problem(f"schedule {state}", f"schedule {id}", "bad", text, advice, since_ts, url, act)
    url, act = reverse("admin:pipeline_schedule_change", args=[id]), "Open the schedule"
    text = f"{what} is overdue."
    advice = "No worker started it. Check that worker and beat run, and that no other job is running."
    because = ("process worker", "process beat")
    return Problem("schedule overdue", f"schedule {id}", "warn", text, advice, since_ts, url, act, because)


def of_queues(now: int, waiting: list[QueueFigures], told: Collection[str] = ()) -> Iterator[Problem]:
    """Yields the queues whose jobs wait, topics with dead letters, and the queues that refuse the jobs of their schedules."""
    page = "admin:console_list_queues"
    more = rest("jobs wait", "queues", "Queues whose jobs wait", page)
    yield from some((of_queue(each, now) for each in waiting), told, more)
    more = rest("dead letters", "queues", "Topics with dead letters", page)
    yield from some((of_letters(each) for each in run(dead_letters(MOST_READ))), told, more)
    more = rest("jobs refused", "queues", "Queues that refuse the jobs of schedules", page)
    yield from some((of_refused(*row) for row in prepared(REFUSED, {"most": MOST_READ})), told, more)


def of_queue(each: QueueFigures, now: int) -> Problem:
    oldest = duration(each.oldest_ready_ms or 0)
    text = f"Queue {each.name} has {counted(each.ready, 'ready job')}. The oldest waits for {oldest}."
    is_served = each.swept_ts is not None and each.swept_ts > now - READY_MS
    advice = (
        "Workers claim jobs, but not fast enough. Start more." if is_served else "No worker claims jobs. Start one."
    )
    level = "warn" if is_served else "bad"
    act = {"url": reverse("admin:console_queue", args=[each.name]), "act": "Open the queue"}
    return Problem("jobs wait", f"topic {each.name}", level, text, advice, now - (each.oldest_ready_ms or 0), **act)


def of_letters(each: DeadLetters) -> Problem:
    whose = f"queue {each.queue}" if each.queues == 1 else f"{each.queues} queues, for example {each.queue}"
    text = f"Topic {each.topic} holds {counted(each.letters, 'dead letter')} of {whose}."
    advice = "Send them back to the queue, or drop them."
    act = {"url": reverse("admin:console_queue", args=[each.queue]), "act": "Open the queue"}
    return Problem("dead letters", f"topic {each.topic}", "warn", text, advice, None, **act)


def of_refused(name: str, schedules: int, since_ts: int, error: str) -> Problem:
    text = f"Queue {name} refuses the jobs of {counted(schedules, 'schedule')}."
    advice = f"{sentence(error)} The next try follows within a minute."
    page, because = (schedules_url(name), "Open the schedules"), (f"topic {name}",)
    return Problem("jobs refused", f"schedules of {name}", "bad", text, advice, since_ts, *page, because)


def of_groups(now: int, told: Collection[str] = ()) -> Iterator[Problem]:
    """Yields the consumer groups with unread records and without a living member."""
    more = rest("no member", "groups", "Groups without a member that are behind", "admin:console_list_groups")
    yield from some((of_group(each, now) for each in run(abandoned(MOST_READ, now))), told, more)


def of_group(each: GroupFigures, now: int) -> Problem:
    text = f"Group {each.name} of {each.topic} has no member and is {counted(each.lag, 'record')} behind."
    since_ts = None if each.oldest_unread_ms is None else now - each.oldest_unread_ms
    advice = "Start a member. If no reader needs the group, delete it."
    act = {"url": reverse("admin:console_groups", args=[each.topic]), "act": "Open the groups"}
    return Problem("no member", f"group {each.name} of {each.topic}", "bad", text, advice, since_ts, **act)


def of_outbox(now: int, told: Collection[str] = ()) -> Iterator[Problem]:
    """Yields the topics that cannot take records of the outbox, and an outbox that no relay empties."""
    if (age := run(oldest_ms(now))) > UNMOVED_MS:
        text, why = "Records that applications emitted do not arrive at their topics.", run(pause())
        advice = f"The relay pauses: {why.message}." if why else "Start a worker: its relay moves them."
        act = {"url": reverse("admin:console_tasks"), "act": "Open the processes"}
        because = ("disk", "process worker")
        yield Problem("outbox waits", "outbox", "bad", text, advice, now - age, **act, because=because)
    advice = "`topics outbox list` has all of them."
    more = rest("outbox stopped", "topics", "Topics at which emitted records cannot arrive", advice=advice)
    yield from some((of_stopped(each, now) for each in run(stopped((), MOST_READ, now))), told, more)


def of_stopped(each: Stopped, now: int) -> Problem:
    text = f"{counted(each.records, 'emitted record')} for {each.topic} cannot arrive: {each.reason}."
    advice = f"Make the topic take the first of them, or leave it out with `topics outbox skip {each.topic}`."
    page, full = (topic_url(each.topic), "Open the topic"), (f"topic {each.topic}",)
    since_ts = now - each.age_ms
    return Problem("outbox stopped", f"outbox of {each.topic}", "bad", text, advice, since_ts, *page, full)


def of_captures(now: int, told: Collection[str] = ()) -> Iterator[Problem]:
    """Yields the captured tables without triggers, and those of which a change was lost in the last day."""
    failed = [
        each
        for each in run(captured((), MOST_READ))
        if not each.is_live or (each.error_ts is not None and each.error_ts > now - DAY_MS)
    ]
    advice = "The view topics.captures has all of them."
    more = rest("capture failed", "captures", "Captures that lost changes, or ended", advice=advice)
    yield from some((of_capture(each) for each in failed), told, more)


def of_capture(each: Captured) -> Problem:
    page = (topic_url(each.topic), "Open the topic")
    if not each.is_live:
        text = f"Changes of table {each.table} are not captured: its triggers are gone or disabled."
        advice = f"Call topics.uncapture('{each.table}'), and then topics.capture again with a snapshot."
        return Problem("capture ended", f"capture of {each.table}", "bad", text, advice, None, *page)
    text = f"Topic {each.topic} lost {counted(each.lost, 'change')} of table {each.table}. Its readers get a tombstone."
    if not each.lost:
        text = f"The snapshot of table {each.table} has stopped."
    advice = sentence(each.error or "")
    return Problem("capture failed", f"capture of {each.table}", "bad", text, advice, each.error_ts, *page)


def of_cursors(stuck: list[StuckCursor], told: Collection[str] = ()) -> Iterator[Problem]:
    """Yields the cursors that have not advanced (console/health/cursors.py) although records wait."""
    more = rest("cursor stuck", "readers", "Cursors that have not advanced", "admin:console_list_readers")
    yield from some((of_cursor(each) for each in stuck), told, more)


def of_cursor(each: StuckCursor) -> Problem:
    text = f"Cursor {each.name} of {each.topic} has not advanced and is {counted(each.lag, 'record')} behind."
    advice = "Check whether a reader runs. If no reader needs the cursor, delete it."
    if each.name.startswith(MIRROR):
        advice = (
            f"Check that the mirror to {each.name.removeprefix(MIRROR)} runs. The log of the mirror has the reason."
        )
    object, page = f"cursor {each.name} of {each.topic}", (topic_url(each.topic), "Open the topic")
    return Problem("cursor stuck", object, "warn", text, advice, each.updated_ts, *page)


def of_the_last_day(day: LastDay) -> Iterator[Problem]:
    """Yields the failed tasks and the answers with an error of the last day."""
    jobs = reverse("admin:console_tasks")
    if day.failures:
        text = f"{counted(day.failures, 'task')} failed in the last day."
        advice = "The server retries failed tasks."
        yield Problem("tasks failed", "tasks", "warn", text, advice, None, jobs, "Open the errors")
    if day.errors:
        text = f"In the last day {counted(day.errors, 'answer')} had a status of 5xx."
        yield Problem(
            "answers 5xx", "web", "warn", text, "See the log of the web server.", None, jobs, "Open the processes"
        )
