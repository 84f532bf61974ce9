"""The server has every metric that the dashboard and the alert rules name, with its labels. tests/push/test_reports.py has those
of the bus."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.instances import ROOT, Instance, until
from tests.watch.wire import Api, new_name

METRIC = re.compile(r"\btopics_\w+")
WITH_LABELS = re.compile(r"(topics_\w+)\{([^}]*)\}")


def expressions(*, rules: bool = True) -> list[str]:
    """Returns the expressions of the dashboard, and of the alert rules."""
    dashboard = json.loads((ROOT / "grafana" / "dashboard.json").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    judged = re.findall(r"^ +expr: (.*)$", Path(ROOT / "grafana" / "alerts.yml").read_text(), re.MULTILINE)
    assert len(shown) > 10
    assert len(judged) > 5
    return [*shown, *judged] if rules else shown


def test_webhooks_the_outbox_and_captures_have_panels() -> None:
    kinds = re.compile(r"\btopics_(?:webhook|outbox|capture)_\w+")
    shown = {name for expression in expressions(rules=False) for name in kinds.findall(expression)}
    assert shown == set(kinds.findall((ROOT / "docs" / "metrics.md").read_text()))


def test_silence_of_every_web_server_is_an_alert() -> None:
    """Without web servers there is no metric to compare with 0."""
    rules = (ROOT / "grafana" / "alerts.yml").read_text()
    (rule,) = re.findall(r"alert: TopicsProcessSilent\n(?: +#.*\n)* +expr: (.*)\n", rules)
    assert rule == 'topics_processes == 0 or absent(topics_processes{kind="web"})'


@pytest.fixture(scope="module")
def served(server: Instance) -> dict[str, set[str]]:
    """The labels of each sample's name, from a server on which everything has happened once."""
    api = Api(server.port)
    source, name = new_name(), new_name()
    api.append(source, 1)
    api.done("PUT", f"/v0/routers/{name}", {"source": source, "dest": new_name(), "paused": True, "from": "earliest"})
    api.done("PUT", f"/v0/topics/{source}/cursors/c", {"seq": 0})
    api.call("POST", f"/v0/topics/{source}/diff", {"from_seq": 0})
    api.done("PUT", f"/v0/topics/{source}-jobs", {"type": "queue", "dead_letter": f"{source}-dead"})
    api.done("PUT", f"/v0/webhooks/{name}", {"url": "https://example.com/", "topics": [source]})
    with server.connect() as connection:
        connection.execute(
            "WITH made AS (INSERT INTO groups_group (topic_id, name, partition_by, partitions, start, created_ts)"
            " SELECT id, 'g', 'tag', 1, 'earliest', 1 FROM topics_topic WHERE name = %s RETURNING id)"
            " INSERT INTO groups_share (group_id, share, seq, updated_ts) SELECT id, 0, 0, 1 FROM made",
            [source],
        )
        connection.execute(f'CREATE TABLE "{name}" (id int PRIMARY KEY)'.encode())
        connection.execute("SELECT topics.capture(%s, %s)", [f'"{name}"', f"{name}-changes"])

    def scraped() -> dict[str, set[str]]:
        families = text_string_to_metric_families(server.get("/v0/metrics")[1])
        return {sample.name: set(sample.labels) for family in families for sample in family.samples}

    return until(lambda: found if "topics_tasks_waiting" in (found := scraped()) else None, "every gauge")


# A counter with labels is there from its first count on, and the number and age of waiting records while a topic refuses some.
RARE = {
    "topics_throttled_total": {"limit"},
    "topics_outbox_waiting_records": {"topic", "code"},
    "topics_outbox_waiting_seconds": {"topic", "code"},
}


@pytest.mark.parametrize("expression", expressions())
def test_what_is_named_is_there(served: dict[str, set[str]], expression: str) -> None:
    known = {**RARE, **served}
    assert set(METRIC.findall(expression)) <= set(known)
    for name, labels in WITH_LABELS.findall(expression):
        assert {label.strip() for label in re.findall(r"(\w+)\s*[=!~]", labels)} <= known[name]


def test_the_histogram_adds_up(server: Instance) -> None:
    api = Api(server.port)
    name = new_name()
    for place in range(5):
        api.append(name, place)

    def counted() -> dict[str, float]:
        families = text_string_to_metric_families(server.get("/v0/metrics")[1])
        return {
            sample.labels.get("le", sample.name): sample.value
            for family in families
            if family.name == "topics_http_request_seconds"
            for sample in family.samples
            if sample.labels["route"] == "/v0/topics/<str:topic>" and sample.labels["method"] == "POST"
        }

    found = until(lambda: counted() if counted().get("+Inf", 0) >= 5 else None, "five appends to be counted")
    bounds = [value for le, value in found.items() if not le.startswith("topics_")]
    assert bounds == sorted(bounds)
    assert found["topics_http_request_seconds_sum"] > 0
