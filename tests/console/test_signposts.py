"""GET /: signposts for people, and for programs that ask for JSON; nobody needs a key, a login or PostgreSQL."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request

import pytest
from django.test import Client

from console.health import heartbeat
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, until
from topics_project.settings import VERSION

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def test_it_works(server: Instance) -> None:
    def told() -> dict[str, object]:
        request = urllib.request.Request(f"{server.url}/", headers={"Accept": "application/json"})
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            assert answer.headers["vary"].lower().startswith("accept")
            return dict(json.load(answer))

    everything = {"web": True, "worker": True, "push": True, "beat": True}
    until(lambda: told()["running"] == everything, "all kinds of processes to run")
    assert (told()["name"], told()["version"]) == ("topics", VERSION)


@pytest.mark.parametrize("accept", [BROWSER, "*/*", "text/html", "image/png", "text/html, application/json;q=0.5"])
def test_people_get_a_page(accept: str) -> None:
    answer = Client().get("/", headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert VERSION in answer.text


@pytest.mark.parametrize("accept", ["application/json", "application/json, */*;q=0.1", "application/*"])
def test_a_client_that_asks_for_json_gets_it(accept: str) -> None:
    assert Client().get("/", headers={"accept": accept}).json()["links"]["docs"] == "/v0/docs"


def test_each_command_that_a_page_shows_sends_json() -> None:
    """curl's `-d` sends a form, which the API refuses (415)."""
    shown = [
        line
        for page in (ROOT / "templates").rglob("*.html")
        for line in page.read_text().splitlines()
        if "curl" in line
    ]
    assert len(shown) >= 2
    assert [line for line in shown if re.search(r"\s(-d|--data)\b", line)] == []


def test_every_signpost_leads_somewhere(server: Instance) -> None:
    _, page = server.get("/")
    links = Client().get("/", headers={"accept": "application/json"}).json()["links"].values()
    shown = re.findall(r'href="([^"]+)"', page)
    assert set(links) <= set(shown)
    for link in shown:
        assert server.get(link)[0] == 200, link


def test_what_fell_silent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = heartbeat.Seen(1_000_000, {"worker": 1_000_000, "beat": 1_000_000 - heartbeat.STALE_MS}, 0, 1_000_000)
    monkeypatch.setattr(heartbeat, "seen", lambda: seen)
    assert heartbeat.running(1_000_000) == {"beat": False, "web": True, "worker": True}


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_nothing_is_taken_there(method: str) -> None:
    refused = getattr(Client(enforce_csrf_checks=True), method)("/")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
