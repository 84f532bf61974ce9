"""The site of docs/: it is made without a warning, its links lead somewhere, and it loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from base import errors
from tests.docs.printed import snippets, text_of
from tests.instances import ROOT, Instance, until
from topics_project import environment

pytestmark = pytest.mark.deep


LOADED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=["']?(https?://[^"' >]+)""")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
FRONT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")  # pages beside docs/


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made strictly: a warning fails, such as of a page that nothing leads to, a link, or an anchor that is not there."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_it_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    canonical = re.compile(r'rel="?canonical')
    found = [(page.name, tag[0]) for page in pages for tag in LOADED.finditer(page.read_text())]
    assert [each for each in found if not canonical.search(each[1])] == []


def test_the_reference_is_whole(site: Path) -> None:
    """The site contains the text that its pages include from other pages."""
    settings, metrics, codes = ((site / f"{name}.html").read_text() for name in ("settings", "metrics", "errors"))
    assert [name for name in environment.SETTINGS if f"<code>{name}</code>" not in settings] == []
    assert "topics_router_lag_seconds" in metrics
    known = {each.code for each in vars(errors).values() if isinstance(each, type) and hasattr(each, "code")}
    assert [code for code in known if f"<code>{code}</code>" not in codes] == []


def test_every_metric_is_described(server: Instance) -> None:
    told = set(re.findall(r"`((?:topics|push)_\w+)`", text_of("docs/metrics.md")))
    assert server.get("/v0/topics")[0] == 200  # a metric of requests appears with the first one, within a second

    def served() -> set[str]:
        return set(re.findall(r"^# HELP ((?:topics|push)_\w+)", server.get("/v0/metrics")[1], re.MULTILINE))

    # These appear when they count for the first time: with a refusal, or with a subscriber of the push bus.
    rare = {"topics_throttled_total"} | {name for name in told if name.startswith("push_")}
    until(lambda: told - served() <= rare, "every metric that the page describes")
    assert served() - told == set()


def test_what_prometheus_is_told_is_there(server: Instance) -> None:
    (told,) = map(yaml.safe_load, snippets("docs/guides/monitoring.md", "yaml"))
    (job,) = told["scrape_configs"]
    assert server.get(job["metrics_path"])[0] == 200
    assert [name for name in told["rule_files"] if not (ROOT / "grafana" / name).exists()] == []


@pytest.mark.parametrize("page", FRONT)
def test_links_of_the_pages_beside_it_lead_somewhere(page: str) -> None:
    for path, anchor in LINK.findall(text_of(page)):
        target = path or page
        assert (ROOT / target).exists(), target
        assert not anchor or anchor in set(anchors(target)), f"{target}#{anchor}"


def anchors(page: str) -> Iterator[str]:
    for heading in re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE):
        yield re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
