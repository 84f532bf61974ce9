"""Reports metrics to METRIC_COLLECTION_SERVICE every 10 seconds: to standard output, to Datadog by its library, or to none."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from django.conf import settings

from base.refusal import Refusal
from push.reports.metrics import Sample, samples
from store.script import Script, Statement, atomically, run

# Values from the tables are stored beside the counted values, so that both are reported in the same way. A value that did not
# change takes no row, because a row that is only locked is written, too.
KEEP = """
INSERT INTO push_counter AS counter (name, tags, total, reported)
SELECT name, tags, now.total, 0
  FROM unnest(%(names)s::text[], %(tags)s::text[], %(totals)s::float8[]) AS now (name, tags, total)
  LEFT JOIN push_counter known USING (name, tags)
 WHERE known.total IS DISTINCT FROM now.total
 ORDER BY name, tags
ON CONFLICT (name, tags) DO UPDATE SET total = excluded.total
"""
# The growth of each counter since the last report. If two workers report at the same time, the second finds nothing new. In the
# order in which others add to the counters, because another order could deadlock.
GROWN = """
WITH due AS (
    SELECT id, name, tags, total - reported AS grown FROM push_counter WHERE total <> reported ORDER BY name, tags FOR UPDATE)
UPDATE push_counter counter SET reported = counter.total FROM due WHERE counter.id = due.id
RETURNING due.name, due.tags, due.grown::text
"""
Reporter = Callable[[list[Sample], list[Sample]], None]  # gauges, and the growth of counters


def report(now: int) -> None:
    """Reports all gauges, and the growth of each counter, to the service."""
    if settings.METRIC_COLLECTION_SERVICE == "none":
        return
    found = run(samples(now))
    grown = run(atomically(grew(found.counters)))
    REPORTERS[settings.METRIC_COLLECTION_SERVICE]()(found.gauges, grown)


def grew(counters: list[Sample]) -> Script[list[Sample]]:
    known = [each for each in counters if each.name.startswith("events.")]
    keys = {"names": [each.name for each in known], "tags": [each.key for each in known]}
    yield Statement(KEEP, {**keys, "totals": [each.value for each in known]})
    by_key = {(each.name, each.key): each for each in counters}
    rows = yield Statement(GROWN)
    return [by_key[name, tags]._replace(value=float(by)) for name, tags, by in rows if (name, tags) in by_key]


def tags_of(sample: Sample) -> list[str]:
    app = {"app": settings.ROUTEMASTER_APP_NAME} if settings.ROUTEMASTER_APP_NAME else {}
    return [f"{name}:{value}" for name, value in {**app, **sample.tags}.items()]


@cache
def print_changes() -> Reporter:
    """Returns this process's reporter that prints one line per metric to standard output, like Routemaster, if it has changed."""
    told: dict[tuple[str, str], float] = {}

    def tell(gauges: list[Sample], grown: list[Sample]) -> None:
        changed = [each for each in gauges if told.get((each.name, each.key)) != each.value]
        told.clear()  # gauges of a client that is gone do not stay
        told.update({(each.name, each.key): each.value for each in gauges})
        for kind, found in (("gauge", changed), ("counter", grown)):
            for each in found:
                print(f"{kind} {each.name}:{each.value:g} ({','.join(tags_of(each))})", flush=True)

    return tell


def datadog() -> Reporter:
    """Returns a reporter that uses the agent DATADOG_STATSD, if it is set, or else the HTTP API."""
    import datadog

    if settings.DATADOG_STATSD:
        host, _, port = settings.DATADOG_STATSD.rpartition(":")
        statsd = datadog.DogStatsd(host=host, port=int(port))

        def tell_agent(gauges: list[Sample], grown: list[Sample]) -> None:
            for each in gauges:
                statsd.gauge(each.name, each.value, tags=tags_of(each))
            for each in grown:
                statsd.increment(each.name, each.value, tags=tags_of(each))
            statsd.flush()
            statsd.close_socket()

        return tell_agent

    datadog.initialize(api_key=settings.DATADOG_API_KEY, app_key=settings.DATADOG_APP_KEY, mute=False)

    def tell_api(gauges: list[Sample], grown: list[Sample]) -> None:
        at = time.time()
        points: list[dict[str, Any]] = [
            {"metric": each.name, "points": [(at, each.value)], "tags": tags_of(each), "type": kind}
            for kind, found in (("gauge", gauges), ("count", grown))
            for each in found
        ]
        datadog.api.Metric.send(metrics=points)

    return tell_api


REPORTERS: dict[str, Callable[[], Reporter]] = {"print": print_changes, "datadog": datadog}
SERVICES = (*REPORTERS, "none")


def check(service: str) -> None:
    """Raises Refusal if the service is unknown, or if its settings or its library are missing."""
    if service not in SERVICES:
        raise Refusal(f"Invalid METRIC_COLLECTION_SERVICE={service}: expected {', '.join(SERVICES)}.")
    if service != "datadog":
        return
    if importlib.util.find_spec("datadog") is None:
        raise Refusal("METRIC_COLLECTION_SERVICE=datadog needs Datadog's library: pip install 'datadog>=0.50,<1'.")
    agent = settings.DATADOG_STATSD
    if agent and not (agent.rpartition(":")[0] and agent.rpartition(":")[2].isdigit()):
        raise Refusal(f"Invalid DATADOG_STATSD={agent}: expected HOST:PORT, as localhost:8125.")
    if not agent and not (settings.DATADOG_API_KEY and settings.DATADOG_APP_KEY):
        raise Refusal(
            "METRIC_COLLECTION_SERVICE=datadog needs DATADOG_API_KEY and DATADOG_APP_KEY, or an agent in DATADOG_STATSD."
        )
