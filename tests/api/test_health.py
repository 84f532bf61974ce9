"""GET /v0/health, /healthz, /v0/ready, /readyz."""

import pytest
from django.db import connection

from base.errors import NotReady
from store import script
from tests.api.clients import ApiClient
from topics.models import Topic
from topics_project.settings import VERSION


@pytest.mark.parametrize("path", ["/v0/health", "/healthz"])
def test_health_works(api: ApiClient, path: str) -> None:
    reply = api.get(path)
    assert reply.status == 200
    answer = reply.json
    assert answer.pop("performance")["server_total_ms"] >= 0
    assert answer.pop("uptime_ms") > 0
    assert answer == {"status": "ok", "version": VERSION}


@pytest.mark.parametrize("path", ["/v0/ready", "/readyz"])
def test_readiness_works(views: ApiClient, name: str, path: str) -> None:
    views.put(f"/v0/topics/{name}")
    reply = views.get(path)
    assert reply.status == 200
    answer = reply.json
    assert answer.pop("performance")["server_total_ms"] >= 0
    assert answer == {"status": "ready", "wal_replay_complete": True, "topics": Topic.objects.count()}


@pytest.mark.parametrize("path", ["/v0/ready", "/readyz"])
def test_it_is_not_ready_without_its_tables(views: ApiClient, path: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE topics_topic RENAME TO topics_gone")
        refused = views.get(path)
        assert (refused.status, refused.code) == (503, "not_ready")
        assert refused.headers["retry-after"] == "1"


def test_health_needs_no_database(views: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise NotReady("away")

    monkeypatch.setattr(script, "prepared", away)
    assert views.get("/v0/health").status == 200
    assert views.get("/v0/ready").code == "not_ready"


@pytest.mark.parametrize("path", ["/v0/health", "/v0/ready"])
def test_it_rejects_post(api: ApiClient, path: str) -> None:
    refused = api.post(path, {})
    assert (refused.status, refused.code) == (405, "method_not_allowed")
    assert refused.headers["allow"] == "GET, HEAD, OPTIONS"
