"""GET /v0/metrics."""

from collections.abc import Callable

import pytest
from django.db import connection
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from store.script import Script
from tests.api.clients import ApiClient, HttpClient
from tests.instances import Instance, until
from wire import metrics
from wire.access.keys import Key


def samples(live: ApiClient, **headers: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of the text, by name and labels."""
    reply = live.get("/v0/metrics", **headers)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(reply.body.decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_it_works(views: ApiClient, name: str) -> None:
    before = samples(views)
    views.append(name, 1, 22, 333)
    views.diff(name)
    views.put(f"/v0/topics/{name}/cursors/c", {"seq": 1})
    after = samples(views)

    def grown(metric: str, **labels: str) -> float:
        key = metric, tuple(sorted(labels.items()))
        return after[key] - before.get(key, 0)

    assert grown("topics_appends_total") == 1
    assert grown("topics_appended_records_total") == 3
    assert grown("topics_diffs_total") == 1
    assert grown("topics_read_records_total") == 3
    assert grown("topics_topics") == 1
    assert grown("topics_records") == 3
    assert grown("topics_bytes") == 6
    assert grown("topics_http_requests_total", method="POST", route="/v0/topics/<str:topic>", status="201") == 1
    assert after["topics_cursor_lag_records", (("cursor", "c"), ("kind", "named"), ("topic", name))] == 2


def test_json_for_who_accepts_it(api: ApiClient, name: str) -> None:
    api.append(name, 1)
    reply = api.get("/v0/metrics", accept="application/json")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json["performance"]["server_total_ms"] > 0
    topics = reply.json["metrics"]["topics_topics"]
    assert topics["type"] == "gauge"
    assert topics["samples"][0]["value"] >= 1


def test_all_processes_add_up(instances: Callable[..., Instance], name: str) -> None:
    """On an instance of its own: what others had appended to a shared one may be told late, between two looks."""
    live = HttpClient(instances(WEB_WORKERS="2").port)
    live.append(name, 0)
    for data in range(40):  # a connection each: both web workers get some
        live.append(name, data)
    appended = ("topics_appended_records_total", ())
    until(lambda: samples(live).get(appended) == 41, "both workers to have told what they counted")


def test_the_figures_of_a_queue(views: ApiClient, name: str) -> None:
    views.put(f"/v0/topics/{name}", {"type": "queue", "max_deliveries": 2, "dead_letter": f"{name}-dead"})
    views.append(name, *range(10))

    def settle(what: str, count: int, **more: int) -> None:
        held = views.post(f"/v0/topics/{name}/claim", {"node": "w", "max": count}).json["claimed"]
        assert len(held) == count
        if what:
            views.post(f"/v0/topics/{name}/{what}", {"node": "w", "seqs": [each["$seq"] for each in held], **more})

    settle("nack", 1)  # the first delivery of the job that becomes a dead letter
    settle("nack", 1)
    settle("ack", 1)
    settle("nack", 3, delay_ms=3_600_000)
    settle("", 2)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics_record SET ts = ts - 3600000")
    figures = {metric: value for (metric, labels), value in samples(views).items() if labels == (("queue", name),)}
    assert figures.pop("topics_queue_oldest_ready_seconds") >= 3600
    assert figures == {
        "topics_queue_ready_jobs": 3,
        "topics_queue_in_flight_jobs": 2,
        "topics_queue_delayed_jobs": 3,
        "topics_queue_dead_lettered_total": 1,
        "topics_queue_dead_letters": 1,
    }


def test_what_is_throttled_counts(views: ApiClient, name: str, settings) -> None:
    settings.TOPICS_MAX_TOPICS = 1
    views.append(name, 1)
    before = samples(views).get(("topics_throttled_total", (("limit", "topics"),)), 0)
    views.append(f"{name}-2", 1)
    assert samples(views)["topics_throttled_total", (("limit", "topics"),)] == before + 1


def test_a_key_sees_the_gauges_of_its_topics(views: ApiClient, name: str, keys) -> None:
    views.append(f"{name}-a", 1)
    views.append(f"{name}-b", 2)
    for end in "ab":
        views.put(f"/v0/topics/{name}-{end}/cursors/c", {"seq": 0})
    keys(f"mine:read:{name}-a")
    mine = samples(views, authorization="Bearer mine")
    assert (mine["topics_topics", ()], mine["topics_records", ()]) == (1, 1)
    assert [dict(labels)["topic"] for metric, labels in mine if metric.startswith("topics_cursor_lag")] == [f"{name}-a"]


def test_another_app_adds_its_own(views: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def own(key: Key) -> Script[list[Metric]]:
        yield from ()
        return [GaugeMetricFamily("own_gauge", "Ours", value=7)]

    monkeypatch.setattr(metrics.collectors, "value", [*metrics.collectors.value, own])
    assert samples(views)["own_gauge", ()] == 7


def test_another_media_type_is_refused(api: ApiClient) -> None:
    assert api.get("/v0/metrics", accept="image/png").code == "not_acceptable"
