"""The problems on the overview: each part that should deliver, forward, archive or serve, and does not.

A problem names the part, what it holds up, since when, and the page where an operator can act.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.conf import settings
from django.urls import reverse

from base.units import counted
from console import gateways
from console.processes import Sign
from console.templatetags.console import router_url, schedules_url, topic_url
from mirrors.sites import CURSOR as MIRROR
from store import disk
from store.database import prepared

MOST = 8  # problems of each kind
WAITED_MS = 60_000  # a subscriber without an error whose events wait for longer than this gets no events
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
SELECT s.client_id, c.name, s.paused, s.health, s.batch_attempts, s.last_error, q.records, q.oldest_ts, count(*) OVER ()
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


class Problem(NamedTuple):
    """A part that does not work. `since_ts`: None if the server does not know the begin. `act`: the text of the link."""

    level: str
    text: str
    advice: str
    since_ts: int | None = None
    url: str = ""
    act: str = ""


def of_servers(processes: list[Sign]) -> Iterator[Problem]:
    """Yields a full disk, and the processes and servers without a heartbeat."""
    jobs = reverse("admin:console_jobs")
    if disk.full():
        text, advice = "The disk is full: appends are refused.", "Free space, or delete topics."
        yield Problem("bad", text, advice, None, reverse("admin:topics_topic_changelist"), "Delete topics")
    for each in processes:
        if each.state != "ok":
            yield Problem(
                "bad",
                f"{each.kind} has no heartbeat.",
                ADVICE[each.kind],
                each.seen_ts or None,
                jobs,
                "Open the processes",
            )


def of_gateways() -> Iterator[Problem]:
    """Yields the gateways that do not answer, and those that serve a cluster without a live node."""
    if not settings.TOPICS_GATEWAYS:
        return
    for each in gateways.seen():
        act = {"url": reverse("admin:console_graph"), "act": "Open the gateways"}
        if each.failure:
            text = f"The gateway {each.name} does not answer."
            advice = f"{each.failure}. Check that it runs, and its address in TOPICS_GATEWAYS."
            yield Problem("bad", text, advice, each.failing_ts, **act)
        elif each.answer is not None and each.answer.degraded:
            text = f"The gateway {each.name} serves {', '.join(each.answer.degraded)} without a live node."
            yield Problem("bad", text, "Check the servers behind it.", None, **act)


def of_routers(routers: Any, now: int) -> Iterator[Problem]:
    """Yields blocked, stalled and paused routers (console/overview.py) with records to forward."""
    for each in routers:
        if each.state == "running":
            continue
        text = f"Router {each.name} is {each.state} and holds up {counted(each.lag, 'record')} for {each.dest}."
        why = each.last_error or "No record was forwarded for 10 s. Check that a worker runs."
        if each.state == "paused":
            why = "An operator paused it. Resume it, or delete it."
        level = "bad" if each.state == "blocked" else "warn"
        since_ts = None if each.oldest_ms is None else now - each.oldest_ms
        yield Problem(level, text, why, since_ts, router_url(each.name), "Open the router")


def of_subscribers(now: int) -> Iterator[Problem]:
    """Yields the subscribers of the bus that have queued events and get none."""
    rows = prepared(NOT_DELIVERED, {"now": now, "waited_ms": WAITED_MS, "most": MOST})
    for id, name, paused, health, attempts, error, records, oldest_ts, _ in rows:
        text = f"Subscriber {name} gets no events. {counted(records, 'event')} {'wait' if records != 1 else 'waits'}."
        if paused:
            advice = "An operator paused it. Resume it, or drop its queue."
        elif error and attempts:
            advice = (
                f"{counted(attempts, 'attempt')} failed, the last one with: {error}. Its health is {health} of 100."
            )
        else:
            advice = "No attempt was made. Check that push runs."
        url = reverse("admin:push_subscriber_change", args=[id])
        yield Problem("warn" if paused else "bad", text, advice, oldest_ts, url, "Open the subscriber")
    if rows and (more := rows[0][-1] - len(rows)):
        url = reverse("admin:push_subscriber_changelist")
        yield Problem("bad", f"{more} more subscribers get no events.", "", None, url, "Open the subscribers")


def of_jobs(now: int) -> Iterator[Problem]:
    """Yields the schedules of archives and other jobs whose last run failed, or that no worker starts."""
    for id, job, topic, run, state, summary, since_ts in prepared(
        NOT_RUN, {"now": now, "overdue_ms": OVERDUE_MS, "most": MOST}
    ):
        what = f"The schedule {job} of {topic}" if topic else f"The schedule {job} {id}"
        if state in ("failed", "wrong"):
            url, act = reverse("admin:pipeline_run_change", args=[run]), "Open the run"
            text = f"{what} {'failed' if state == 'failed' else 'found something wrong'}."
            yield Problem("bad", text, f"{summary}. The next run tries again.", since_ts, url, act)
        else:
            url, act = reverse("admin:pipeline_schedule_change", args=[id]), "Open the schedule"
            advice = "No worker started it. Check that worker and beat run, and that no other job is running."
            yield Problem("warn", f"{what} is overdue.", advice, since_ts, url, act)


def of_queues() -> Iterator[Problem]:
    """Yields the queues that refuse the jobs of their schedules."""
    for name, count, since_ts, error in prepared(REFUSED, {"most": MOST}):
        text = f"Queue {name} refuses the jobs of {counted(count, 'schedule')}."
        advice = f"{error[0].upper()}{error[1:]}. The next try follows within a minute."
        yield Problem("bad", text, advice, since_ts, schedules_url(name), "Open the schedules")


def of_cursors(stuck: Any) -> Iterator[Problem]:
    """Yields the cursors that have not advanced (console/overview.py) although records wait."""
    for topic, cursor, lag, updated_ts in stuck:
        text = f"Cursor {cursor} of {topic} has not advanced and is {counted(lag, 'record')} behind."
        advice = "Check whether a reader runs. If no reader needs the cursor, delete it."
        if cursor.startswith(MIRROR):
            advice = (
                f"Check that the mirror to {cursor.removeprefix(MIRROR)} runs. The log of the mirror has the reason."
            )
        yield Problem("warn", text, advice, updated_ts, topic_url(topic), "Open the topic")


def of_the_last_day(totals: dict[str, Any]) -> Iterator[Problem]:
    """Yields the failed tasks and the answers with an error of the last day."""
    jobs = reverse("admin:console_jobs")
    if totals["failures"]:
        text = f"{counted(totals['failures'], 'task')} failed in the last day."
        yield Problem("warn", text, "The server retries failed tasks.", None, jobs, "Open the errors")
    if totals["errors_day"]:
        text = f"In the last day {counted(totals['errors_day'], 'answer')} had a status of 5xx."
        yield Problem("warn", text, "See the log of the web server.", None, jobs, "Open the processes")
