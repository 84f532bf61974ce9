"""The counters of a gateway's processes, and their sum in the text format of Prometheus.

Labels contain no topic, client or session.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

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


def labels(values: Labels, le: str | None = None) -> str:
    pairs = [f'{name}="{value}"' for name, value in zip(REQUEST_LABELS, values, strict=True)]
    if le is not None:
        pairs.append(f'le="{le}"')
    return "{" + ",".join(pairs) + "}"


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


def text(told: ProcessCounts) -> str:
    """Returns the metrics in the text format of Prometheus."""
    lines = [
        "# HELP topics_gateway_requests_total Requests answered",
        "# TYPE topics_gateway_requests_total counter",
    ]
    rows = told.requests
    for key, row in rows:
        lines.append(f"topics_gateway_requests_total{labels(key)} {sum(row[:-2]):.0f}")
    lines += [
        "# HELP topics_gateway_errors_total Requests answered with 5xx",
        "# TYPE topics_gateway_errors_total counter",
    ]
    lines += [f"topics_gateway_errors_total{labels(key)} {row[-1]:.0f}" for key, row in rows]
    lines += [
        "# HELP topics_gateway_request_seconds Duration of requests",
        "# TYPE topics_gateway_request_seconds histogram",
    ]
    for key, row in rows:
        total = 0.0
        for bound, number in zip((*BOUNDS, "+Inf"), row[:-2], strict=True):
            total += number
            lines.append(f"topics_gateway_request_seconds_bucket{labels(key, le=str(bound))} {total:.0f}")
        lines.append(f"topics_gateway_request_seconds_sum{labels(key)} {row[-2]:.6f}")
        lines.append(f"topics_gateway_request_seconds_count{labels(key)} {total:.0f}")
    lines += [
        "# HELP topics_gateway_failures_total Failures of the gateway by kind",
        "# TYPE topics_gateway_failures_total counter",
    ]
    for (name, kind), number in told.errors:
        lines.append(f'topics_gateway_failures_total{{virtual_cluster="{name}",kind="{kind}"}} {number}')
    lines += [
        "# HELP topics_gateway_in_flight Requests in flight",
        "# TYPE topics_gateway_in_flight gauge",
    ]
    for name, number in sorted(told.in_flight.items()):
        lines.append(f'topics_gateway_in_flight{{virtual_cluster="{name}"}} {number}')
    lines += [
        "# HELP topics_gateway_breaker State of a node's breaker: 0 closed, 1 half open, 2 open",
        "# TYPE topics_gateway_breaker gauge",
    ]
    for cluster, node, state in sorted(told.breakers):
        lines.append(f'topics_gateway_breaker{{cluster="{cluster}",node="{node}"}} {STATES.index(state)}')
    for name, same in groupby(told.gauges, lambda each: each[0].name):
        of_name = list(same)
        lines += [
            f"# HELP topics_gateway_{name} {of_name[0][0].help}",
            f"# TYPE topics_gateway_{name} gauge",
        ]
        for gauge, number in of_name:
            where = f'virtual_cluster="{gauge.virtual_cluster}",router="{gauge.router}",route="{gauge.route}"'
            lines.append(f"topics_gateway_{name}{{{where}}} {number:.0f}")
    return "\n".join(lines) + "\n"
