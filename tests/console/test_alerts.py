"""Prometheus evaluates the alert rules: each rule fires in a scenario of alerts.yml, and none fires in a healthy deployment.

It evaluates the panels of the dashboard, too: two hosts that show the same database are no twice as large deployment.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.instances import ROOT
from wire.metrics import COUNTED

DASHBOARD = ROOT / "grafana" / "dashboard.json"
METRIC = re.compile(r"\b(?:topics|push)_\w+")
# The metrics that each host counts for itself. All others are read from the database.
OF_A_HOST = {*(name for name, _, _ in COUNTED), "topics_http_request_seconds_bucket"}
LABELS = 'kind="named",status="failure",subscriber="s.1",router="r",topic="t",queue="q",group="g",share="0"'

RULES, SCENARIOS = ROOT / "grafana" / "alerts.yml", Path(__file__).with_name("alerts.yml")


def rules() -> set[str]:
    return {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


def scenarios() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(SCENARIOS.read_text())["tests"]
    return found


def test_each_rule_has_a_scenario_in_which_it_fires_and_is_quiet_in_the_healthy_one() -> None:
    healthy, *others = scenarios()
    assert {case["alertname"] for case in healthy["alert_rule_test"]} == rules()
    assert not any(case.get("exp_alerts") for case in healthy["alert_rule_test"])
    fired = {case["alertname"] for each in others for case in each["alert_rule_test"] if case.get("exp_alerts")}
    assert fired == rules()


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="NOT TRIED: there is no promtool here (apt-get install prometheus)"
)


@needs_promtool
def test_prometheus_evaluates_the_scenarios_as_they_say(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path / "alerts-of-the-product.yml")
    # promtool knows no merge keys.
    (tmp_path / "scenarios.yml").write_text(yaml.safe_dump(yaml.safe_load(SCENARIOS.read_text())))
    done = subprocess.run(
        ["promtool", "test", "rules", "scenarios.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def figures(folder: Path, hosts: str) -> list[str]:
    """Returns the result of each expression of the dashboard about the database, which these hosts show."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    every = [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel["targets"]]
    shown = [each for each in every if not set(METRIC.findall(each)) & OF_A_HOST]
    metrics = {name for each in shown for name in METRIC.findall(each)}
    series = [
        {
            "series": f'{name}{{{LABELS},instance="{host}",pod="{host}"}}',
            "values": "0x70" if name.endswith(("members", "live")) else "60+60x70",
        }
        for name in sorted(metrics)
        for host in hosts
    ]
    # promtool prints the result of an expression that is not as expected.
    asked = [{"expr": each, "eval_time": "65m", "exp_samples": [{"value": -1}]} for each in shown]
    test = {"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": asked}]}
    (folder / "figures.yml").write_text(json.dumps(test))
    done = subprocess.run(
        ["promtool", "test", "rules", "figures.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    found = re.findall(r"got: *(.*)", done.stdout + done.stderr)
    assert len(found) == len(shown) > 20
    assert all("nil" not in each for each in found)
    return found


@needs_promtool
def test_the_dashboard_shows_the_database_once_however_many_hosts_are_scraped(tmp_path: Path) -> None:
    assert figures(tmp_path, "ab") == figures(tmp_path, "a")
