"""The metrics of webhooks for Prometheus: one query at each scrape. Lags are among those of cursors (topics/metrics.py)."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from push.webhooks.webhooks import FEW_WAITING
from store.script import Script, Statement
from wire.access.keys import Key

# A webhook is failing while its last calls failed. The rows of waiting records are counted up to a bound, by the index.
WEBHOOKS = f"""
SELECT name, delivered_total, dead_total, calls_total - failed_total, failed_total, ms_total, failures, paused,
       {FEW_WAITING}
  FROM push_webhook w
 WHERE %(prefixes)s::text[] IS NULL OR name ^@ ANY (%(prefixes)s)
 ORDER BY name
"""


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the metrics of the webhooks that this key may see."""
    counted = {
        "records": CounterMetricFamily("topics_webhook_records", "Records that were delivered", labels=("webhook",)),
        "dead": CounterMetricFamily("topics_webhook_dead", "Records that had no attempt left", labels=("webhook",)),
        "calls": CounterMetricFamily(
            "topics_webhook_calls", "Calls. `status` is `success` or `failure`", labels=("webhook", "status")
        ),
        "seconds": CounterMetricFamily("topics_webhook_seconds", "Sum of the durations of calls", labels=("webhook",)),
    }
    failures = GaugeMetricFamily("topics_webhook_failures", "Failed calls in a row", labels=("webhook",))
    paused = GaugeMetricFamily("topics_webhook_paused", "1 for a webhook that is paused", labels=("webhook",))
    waiting = GaugeMetricFamily(
        "topics_webhook_waiting", "Records that wait for another call, at most 10,000", labels=("webhook",)
    )
    for name, records, dead, well, failed, ms, in_a_row, is_paused, waits in (
        yield Statement(WEBHOOKS, {"prefixes": list(key.prefixes) or None})
    ):
        counted["records"].add_metric((name,), records)
        counted["dead"].add_metric((name,), dead)
        counted["calls"].add_metric((name, "success"), well)
        counted["calls"].add_metric((name, "failure"), failed)
        counted["seconds"].add_metric((name,), ms / 1000)
        failures.add_metric((name,), in_a_row)
        paused.add_metric((name,), int(is_paused))
        waiting.add_metric((name,), waits)
    return [*counted.values(), failures, paused, waiting]
