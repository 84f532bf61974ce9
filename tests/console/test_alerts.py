"""Prometheus evaluates the alert rules: each rule fires in a scenario of alerts.yml, and none fires in a healthy deployment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.instances import ROOT

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


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="NOT TRIED: there is no promtool here (apt-get install prometheus)"
)
def test_prometheus_evaluates_the_scenarios_as_they_say(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path / "alerts-of-the-product.yml")
    # promtool knows no merge keys.
    (tmp_path / "scenarios.yml").write_text(yaml.safe_dump(yaml.safe_load(SCENARIOS.read_text())))
    done = subprocess.run(
        ["promtool", "test", "rules", "scenarios.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
