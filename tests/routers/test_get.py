"""GET /v0/routers/:router."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from base.clock import now_ms
from routers import advance
from routers.lag import STALLED_MS
from tests.api.clients import ApiClient
from tests.instances import until
from tests.routers.conftest import read, route
from topics.models import Topic


def drain(topic: str) -> None:
    list(advance.drain(Topic.objects.get(name=topic).pk, now_ms))


def test_it_works(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(api, source, dest, filter=["tag", "Eq", "x"], guarantee="exactly_once")
    answer = api.get(f"/v0/routers/{router}").json
    assert answer.pop("performance")["server_total_ms"] > 0
    assert answer == {
        "router": router,
        "source": source,
        "dest": dest,
        "preserve_node": True,
        "preserve_tag": True,
        "filter": ["tag", "Eq", "x"],
        "allow_cycle": False,
        "guarantee": "exactly_once",
        "allow_fan_in": False,
        "paused": False,
        "forwarded_total": 0,
        "cursor": 0,
        "lag": 0,
        "oldest_unread_ms": None,
        "state": "running",
        "stalled": False,
        "last_error": None,
    }


def test_an_absent_router_is_404(api: ApiClient, names: Iterator[str]) -> None:
    router = next(names)
    missing = api.get(f"/v0/routers/{router}")
    assert (missing.status, missing.code) == (404, "router_not_found")
    assert missing.detail == {"router": router}


def test_a_bad_name_is_400(api: ApiClient) -> None:
    refused = api.get("/v0/routers/-")
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_it_counts_what_it_forwarded(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(api, source, dest, filter="x")
    api.post(f"/v0/topics/{source}", {"records": [{"data": tag, "tag": tag} for tag in "xyx"]})
    read(api, dest)
    answer = api.get(f"/v0/routers/{router}").json
    assert (answer["forwarded_total"], answer["cursor"], answer["lag"]) == (2, 3, 0)


@pytest.mark.guarantee("S6")
def test_lag_is_the_head_less_the_cursor_when_asked(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(api, source, dest, paused=True)  # a worker may be at it
    api.append(source, 1, 2, 3)
    answer = api.get(f"/v0/routers/{router}").json
    assert (answer["cursor"], answer["lag"], answer["stalled"]) == (0, 3, False)
    assert answer["oldest_unread_ms"] >= 0
    assert api.put(f"/v0/routers/{router}", {"source": source, "dest": dest, "paused": False}).status == 200
    read(api, dest)
    answer = api.get(f"/v0/routers/{router}").json
    assert (answer["cursor"], answer["lag"], answer["oldest_unread_ms"]) == (3, 0, None)


def grow_old(topic: str, router: str) -> None:
    """As if what the topic holds, and the router's last step, were a minute past the limit."""
    ago = STALLED_MS + 60_000
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE topics_record SET ts = ts - %s WHERE topic_id = (SELECT id FROM topics_topic WHERE name = %s)",
            [ago, topic],
        )
        cursor.execute("UPDATE topics_cursor SET updated_ts = updated_ts - %s WHERE name = %s", [ago, router])


@pytest.mark.parametrize(("config", "stalled"), [({}, True), ({"paused": True}, False)])
def test_a_router_that_nobody_moves_is_stalled(
    views: ApiClient, names: Iterator[str], config: dict[str, Any], stalled: bool
) -> None:
    source, dest = next(names), next(names)
    router = route(views, source, dest, **config)
    views.append(source, 1)
    grow_old(source, router)
    answer = views.get(f"/v0/routers/{router}").json
    assert (answer["stalled"], answer["state"]) == (stalled, "paused" if config else "running")
    assert answer["oldest_unread_ms"] > STALLED_MS
    views.put(f"/v0/routers/{router}", {"source": source, "dest": dest, "paused": False})
    read(views, dest)
    assert views.get(f"/v0/routers/{router}").json["stalled"] is False


def test_a_source_that_rested_long_does_not_make_its_router_stalled(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(views, source, dest)
    grow_old(source, router)
    views.append(source, 1)
    assert views.get(f"/v0/routers/{router}").json["stalled"] is False


def test_a_full_dest_blocks_and_says_why(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    views.put(f"/v0/topics/{dest}", {"cap_records": 2, "discard": "reject"})
    router = route(views, source, dest)
    views.append(source, 1, 2, 3, 4)
    assert read(views, dest) == [1, 2]
    answer = views.get(f"/v0/routers/{router}").json
    assert (answer["state"], answer["cursor"], answer["lag"], answer["forwarded_total"]) == ("blocked", 2, 2, 2)
    assert dest in answer["last_error"]
    assert "full" in answer["last_error"]
    grow_old(source, router)
    assert views.get(f"/v0/routers/{router}").json["stalled"] is True
    # Room again: the next read finds what waited, without a pause.
    views.post(f"/v0/topics/{dest}/delete", {"before_seq": 2})
    assert read(views, dest) == [2, 3]
    assert views.get(f"/v0/routers/{router}").json["state"] == "blocked"
    views.put(f"/v0/topics/{dest}", {"cap_records": 0})
    assert read(views, dest) == [2, 3, 4]
    answer = views.get(f"/v0/routers/{router}").json
    assert (answer["state"], answer["last_error"], answer["lag"]) == ("running", None, 0)


def test_a_key_needs_read_and_all_names_within_its_prefixes(views: ApiClient, keys: Any) -> None:
    keys("root:admin+read,writer:write,mine:read:a.")
    for router, source, dest in (
        ("a.r", "a.1", "a.2"),
        ("a.s", "a.1", "b.2"),
        ("a.t", "b.1", "a.3"),
        ("b.r", "a.1", "a.4"),
    ):
        views.put(f"/v0/routers/{router}", {"source": source, "dest": dest}, authorization="Bearer root")
    assert views.get("/v0/routers/a.r").code == "unauthorized"
    assert views.get("/v0/routers/a.r", authorization="Bearer writer").code == "forbidden"
    assert views.get("/v0/routers/a.r", authorization="Bearer mine").status == 200
    for router in ("a.s", "a.t", "b.r"):
        refused = views.get(f"/v0/routers/{router}", authorization="Bearer mine")
        assert (refused.status, refused.code) == (403, "forbidden")


@pytest.mark.guarantee("W9")
@pytest.mark.parametrize(
    "config", [{}, {"filter": "x"}, {"guarantee": "exactly_once"}], ids=["plain", "filter", "once"]
)
def test_a_sealed_dest_blocks_and_says_why_and_loses_nothing(
    views: ApiClient, names: Iterator[str], config: dict[str, Any]
) -> None:
    source, dest = next(names), next(names)
    router = route(views, source, dest, **config)

    def append(*data: int) -> None:
        assert (
            views.post(f"/v0/topics/{source}", {"records": [{"data": each, "tag": "x"} for each in data]}).status < 300
        )

    append(1)
    assert read(views, dest) == [1]
    views.put(f"/v0/topics/{dest}", {"sealed": True})
    append(2, 3)
    drain(source)
    assert read(views, dest) == [1]
    answer = views.get(f"/v0/routers/{router}").json
    assert (answer["state"], answer["cursor"], answer["lag"]) == ("blocked", 1, 2)
    assert answer["last_error"] == f"dest {dest} is sealed: it takes no records"
    # It goes on at once, without a pause.
    views.put(f"/v0/topics/{dest}", {"sealed": False})
    assert read(views, dest) == [1, 2, 3]
    answer = views.get(f"/v0/routers/{router}").json
    assert (answer["state"], answer["last_error"], answer["lag"]) == ("running", None, 0)


def test_a_sealed_dest_is_told_of_no_loss_before_it_is_unsealed(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    route(views, source, dest)
    views.put(f"/v0/topics/{source}", {"cap_records": 1})
    views.put(f"/v0/topics/{dest}", {"sealed": True})
    views.append(source, 1, 2, 3)
    drain(source)
    assert views.get(f"/v0/topics/{dest}").json["head_seq"] == 0
    views.put(f"/v0/topics/{dest}", {"sealed": False})
    window = views.diff(dest).json
    assert ([record["data"] for record in window["records"]], window["tombstone"]["reason"]) == ([3], "source_trim")


def test_a_router_goes_on_by_itself_when_its_dest_is_unsealed(live: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(live, source, dest)
    live.put(f"/v0/topics/{dest}", {"sealed": True})
    live.append(source, 1, 2)
    until(lambda: live.get(f"/v0/routers/{router}").json["state"] == "blocked", "the router to be blocked")
    live.put(f"/v0/topics/{dest}", {"sealed": False})
    until(lambda: live.get(f"/v0/routers/{router}").json["lag"] == 0, "the router to go on")
