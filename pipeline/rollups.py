"""Reads rollups of a topic or a router by minute, for charts and reports."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from django.db.models import Max, Min, Sum

from pipeline.delays import percentile
from pipeline.models import Delay, Rollup


class Minute(NamedTuple):
    """The traffic of a topic in one minute."""

    minute_ts: int
    records: int
    bytes: int
    first_seq: int
    last_seq: int


class Forwarded(NamedTuple):
    """The records that a router forwarded in one minute, and their delays (ms) from append to append."""

    minute_ts: int
    records: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


def minutes(topic_id: int, since_ts: int) -> list[Minute]:
    """Returns a topic's minutes from `since_ts` (ms) on, in order. Minutes without records are left out."""
    kept = Rollup.objects.filter(topic_id=topic_id, minute_ts__gte=since_ts).values("minute_ts").order_by("minute_ts")
    sums = kept.annotate(n=Sum("records"), size=Sum("bytes"), first=Min("first_seq"), last=Max("last_seq"))
    return [Minute(row["minute_ts"], row["n"], row["size"], row["first"], row["last"]) for row in sums]


def delays(router: str, since_ts: int) -> list[Forwarded]:
    """Returns a router's minutes from `since_ts` (ms) on, in order."""
    histograms: dict[int, dict[int, int]] = defaultdict(dict)
    kept = Delay.objects.filter(router=router, minute_ts__gte=since_ts)
    for minute_ts, bucket, records in kept.values_list("minute_ts", "bucket").annotate(n=Sum("records")):
        histograms[minute_ts][bucket] = records
    return [
        Forwarded(minute_ts, sum(each.values()), percentile(each, 0.5), percentile(each, 0.95), percentile(each, 0.99))
        for minute_ts, each in sorted(histograms.items())
    ]
