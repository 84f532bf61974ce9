"""The counters of a gateway's processes, and their sum in the text format of Prometheus.

Labels contain no topic, client or session.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
REQUEST_LABELS = ("virtual_cluster", "router", "route", "operation", "mode")
STATES = ("closed", "half_open", "open")  # states of a breaker, the worst state last
KINDS = ("unknown_route", "node_unreachable", "router_failed", "timeout")

# Labels: virtual cluster, router, route, operation and mode. Row: requests up to each bound, all requests, seconds, failures.
Labels = tuple[str, str, str, str, str]
Row = list[float]


class Gauge(NamedTuple):
    """A router's own number, by route (api.RouterFactoryContext.gauge)."""

    name: str
    help: str
    virtual_cluster: str
    router: str
    route: str


class ProcessCounts(msgspec.Struct):
    """The report of one process to the other processes of the gateway. `breakers`: cluster, node and state."""

    pid: int
    status: str
    configuration: str
    requests: list[tuple[Labels, Row]]
    errors: list[tuple[tuple[str, str], int]]
    in_flight: dict[str, int]
    breakers: list[tuple[str, int, str]]
    gauges: list[tuple[Gauge, float]] = []


class Metrics:
    """Counters of one process."""

    def __init__(self) -> None:
        self.requests: dict[Labels, Row] = {}
        self.errors: dict[tuple[str, str], int] = {}  # by virtual cluster and kind
        self.started = time.time()

    def row(self, labels: Labels) -> Row:
        found = self.requests.get(labels)
        if found is None:
            found = self.requests[labels] = [0.0] * (len(BOUNDS) + 3)
        return found

    def count(self, labels: Labels, seconds: float, status: int) -> None:
        row = self.row(labels)
        row[bisect_left(BOUNDS, seconds)] += 1
        row[-2] += seconds
        if status >= 500:
            row[-1] += 1

    def continued(self, told: ProcessCounts) -> None:
        """Continues the counters of an earlier process."""
        self.requests = {key: list(row) for key, row in told.requests}
        self.errors = dict(told.errors)

    def failed(self, virtual_cluster: str, kind: str) -> None:
        key = virtual_cluster, kind
        self.errors[key] = self.errors.get(key, 0) + 1


def summed(processes: Sequence[ProcessCounts]) -> ProcessCounts:
    """Returns the sum over processes. A breaker has the worst state of all processes, a gauge the largest number."""
    requests: dict[Labels, Row] = {}
    errors, in_flight = Counter[tuple[str, str]](), Counter[str]()
    breakers: dict[tuple[str, int], str] = {}
    for each in processes:
        for key, row in each.requests:
            requests[key] = [a + b for a, b in zip(requests[key], row, strict=True)] if key in requests else row
        errors.update(dict(each.errors))
        in_flight.update(each.in_flight)
        for cluster, node, state in each.breakers:
            breakers[cluster, node] = max(breakers.get((cluster, node), "closed"), state, key=STATES.index)
    gauges: dict[Gauge, float] = {}
    for gauge, number in [pair for each in processes for pair in each.gauges]:
        gauges[gauge] = max(gauges.get(gauge, number), number)
    nodes = [(cluster, node, state) for (cluster, node), state in breakers.items()]
    return ProcessCounts(
        0, "", "", sorted(requests.items()), sorted(errors.items()), in_flight, nodes, sorted(gauges.items())
    )


class Scrape(Collector):
    """The metrics of a gateway, from the sum of its processes."""

    def __init__(self, told: ProcessCounts) -> None:
        self.told = told

    def collect(self) -> Iterator[Metric]:
        yield from self.requests()
        failures = CounterMetricFamily(
            "topics_gateway_failures", "Failures of the gateway by kind", labels=("virtual_cluster", "kind")
        )
        for names, number in self.told.errors:
            failures.add_metric(names, number)
        in_flight = GaugeMetricFamily("topics_gateway_in_flight", "Requests in flight", labels=("virtual_cluster",))
        for name, number in sorted(self.told.in_flight.items()):
            in_flight.add_metric((name,), number)
        breakers = GaugeMetricFamily(
            "topics_gateway_breaker",
            "State of a node's breaker: 0 closed, 1 half open, 2 open",
            labels=("cluster", "node"),
        )
        for cluster, node, state in sorted(self.told.breakers):
            breakers.add_metric((cluster, str(node)), STATES.index(state))
        yield from (failures, in_flight, breakers)
        yield from self.of_routers()

    def requests(self) -> Iterator[Metric]:
        total = CounterMetricFamily("topics_gateway_requests", "Requests answered", labels=REQUEST_LABELS)
        errors = CounterMetricFamily("topics_gateway_errors", "Requests answered with 5xx", labels=REQUEST_LABELS)
        seconds = HistogramMetricFamily("topics_gateway_request_seconds", "Duration of requests", labels=REQUEST_LABELS)
        for labels, (*buckets, all_seconds, failed) in self.told.requests:
            upto = list(accumulate(buckets))
            total.add_metric(labels, upto[-1])
            errors.add_metric(labels, failed)
            seconds.add_metric(labels, list(zip(map(str, (*BOUNDS, "+Inf")), upto, strict=True)), all_seconds)
        yield from (total, errors, seconds)

    def of_routers(self) -> Iterator[Metric]:
        """Yields the routers' own numbers."""
        for name, same in groupby(self.told.gauges, lambda each: each[0].name):
            numbers = list(same)
            text = numbers[0][0].help
            family = GaugeMetricFamily(f"topics_gateway_{name}", text, labels=("virtual_cluster", "router", "route"))
            for gauge, number in numbers:
                family.add_metric((gauge.virtual_cluster, gauge.router, gauge.route), number)
            yield family


def text(told: ProcessCounts) -> bytes:
    """Returns the metrics in the text format of Prometheus."""
    return generate_latest(Scrape(told))
