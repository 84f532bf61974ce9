"""Each page: its users, the number of its queries, its content, and no markup from user input."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from django.conf import settings
from django.contrib.admin import site
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from base.clock import now_ms
from console.health.cursors import STUCK_MS
from console.history import samples
from console.models import Failure, Process, Signal
from console.objects import reading
from groups.joining import JoinQuery, join
from push.models import BusClient, BusTopic
from push.webhooks import webhooks
from push.webhooks.config import PutWebhook
from routers.models import Router
from routers.routers import RouterConfig
from store.script import run
from tests.admin.pages import errors, put, rows, text
from tests.scripts import append, catch_up, create_session, delete_records, delete_router, move, put_router
from topics.admin.pages import DomainAdmin
from topics.append.records import Append, NewRecord, check_rows
from topics.models import AuditEntry, Cursor, Topic
from watch.sessions import Start, Watch
from wire.access.keys import OPEN

EVIL = "<script>alert(1)</script>\"'&\u202e" + "x" * 100
MOST_QUERIES = 12


@pytest.fixture
def filled(db: None) -> Topic:
    """Two topics with a router between them, a cursor, a watch session's like, samples, and a task that failed."""
    topic = put("orders", "1", '{"a": [1, {"b": 2}]}', "3", tag="vip:1")
    put_router(
        "orders->audit",
        RouterConfig(source="orders", dest="audit", start="earliest", filter=("tag", "Glob", "vip:*")),
        now_ms(),
    )
    move("orders", "billing", 1, None, now_ms())
    run(join("orders", "team", JoinQuery(member="worker-1", partitions=4), OPEN, now_ms()))
    samples.sample(now_ms() - 60_000)
    samples.sample(now_ms())
    Failure.objects.create(ts=now_ms(), task="t", arguments=EVIL, error=EVIL, trace=EVIL)
    return topic


def pages(topic: Topic) -> list[str]:
    return [
        "/admin/",
        "/admin/?range=90d",
        "/admin/topic/orders/",
        "/admin/topic/orders/records/",
        "/admin/topic/orders/records/?seq=2",
        "/admin/topic/orders/records/?at=2026-01-01T00:00",
        "/admin/topic/orders/records/?tag=vip:1",
        "/admin/topic/orders/records/?tag=vip:*&node=n",
        "/admin/topic/orders/records/2/",
        "/admin/topic/orders/groups/",
        "/admin/topic/orders/append/",
        "/admin/router/orders-%3Eaudit/",
        "/admin/router/orders-%3Eaudit/pause/",
        "/admin/router/orders-%3Eaudit/move/",
        "/admin/graph/",
        "/admin/graph/?focus=orders&hops=1",
        "/admin/live/",
        "/admin/live/?topic=orders",
        "/admin/limits/",
        "/admin/tasks/",
        "/admin/complete/?q=ord",
        "/admin/find/?q=ord",
        "/admin/topics/topic/",
        "/admin/routers/router/",
        f"/admin/topics/topic/{topic.pk}/change/",
    ]


def test_each_page_is_there_in_few_queries(browser: Client, filled: Topic, queries: Any) -> None:
    browser.get("/admin/graph/")  # from here on the layout is kept
    for page in pages(filled):
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as seen:
            assert browser.get(page).status_code == 200, page
        assert len(seen) <= MOST_QUERIES, page


def test_the_limits_have_each_cap(browser: Client, filled: Topic) -> None:
    page = browser.get("/admin/limits/").content.decode()
    caps = {name for name in dir(settings) if name.startswith("TOPICS_MAX_")}
    assert caps
    assert {name for name in caps if f"<code>{name}</code>" not in page} == set()


def test_a_client_without_a_login_sees_none(client: Client, filled: Topic) -> None:
    for page in pages(filled):
        assert client.get(page).status_code == 302, page


def test_a_viewer_looks_and_changes_nothing(viewer: Client, filled: Topic) -> None:
    for page in pages(filled):
        forbidden = page.endswith(("/append/", "/pause/", "/move/"))
        assert viewer.get(page).status_code == (403 if forbidden else 200), page
    assert viewer.post("/admin/topic/orders/append/", {"data": "1"}).status_code == 403
    assert viewer.post("/admin/router/orders-%3Eaudit/pause/", {"paused": "1"}).status_code == 403
    assert Router.objects.get().state == "running"
    assert Topic.objects.select_related("head").get(name="orders").head.head_seq == 3


def test_a_user_who_may_see_no_topic_gets_the_plain_index(
    client: Client, django_user_model: type, filled: Topic
) -> None:
    client.force_login(django_user_model.objects.create_user("clerk", is_staff=True))
    assert client.get("/admin/").status_code == 200
    assert client.get("/admin/topic/orders/").status_code == 403
    assert client.get("/admin/graph/").status_code == 403


def test_what_is_not_there_is_404(browser: Client, filled: Topic) -> None:
    for page in ("topic/none/", "topic/none/records/", "topic/orders/records/9/", "router/none/", "router/none/move/"):
        assert browser.get(f"/admin/{page}").status_code == 404, page


def test_a_router_that_is_deleted_while_its_page_is_made_is_404(
    browser: Client, filled: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    from console.objects import router

    put_router("r", RouterConfig(source="orders", dest="copy"), now_ms())
    found = router.found("r")
    delete_router("r")
    monkeypatch.setattr(router, "found", lambda name: found)  # as it was a moment ago
    for page in ("", "move/"):
        assert browser.get(f"/admin/router/r/{page}").status_code == 404, page


def test_refusals_are_pages_that_lead_on(browser: Client, viewer: Client, filled: Topic) -> None:
    absent = browser.get("/admin/topic/none/").content.decode()
    assert "none" in text(absent.partition("<h1>")[2])
    assert 'href="/admin/topics/topic/"' in absent
    assert "Http404" not in browser.get("/admin/none/").content.decode()
    assert "give permissions" in viewer.get("/admin/topic/orders/append/").content.decode()


def test_a_record_says_when_it_was_written_and_under_which_tag(browser: Client, filled: Topic) -> None:
    page = text(browser.get("/admin/topic/orders/records/2/").content.decode())
    assert re.search(r"Written \d{4}-\d\d-\d\d \d\d:\d\d:\d\d .* ago Tag vip:1 Size \d+ B", page), page


def test_a_list_of_records_names_homes_only_where_there_are_any(browser: Client, filled: Topic) -> None:
    catch_up(Topic.objects.get(name="audit").pk, now_ms())
    assert '<th class="from">' not in browser.get("/admin/topic/orders/records/").content.decode()
    page = browser.get("/admin/topic/audit/records/").content.decode()
    assert '<th class="from">' in page
    assert page.count(">orders</bdi></a></td></tr>") == 3


def test_what_people_wrote_stays_text(browser: Client, db: None) -> None:
    record = NewRecord(
        msgspec.Raw(msgspec.json.encode({EVIL: EVIL})), EVIL, EVIL[:40], msgspec.Raw(msgspec.json.encode({"k": EVIL}))
    )
    wanted = Append([record])
    append("a", wanted, check_rows(wanted), now_ms())
    router = put_router(
        "a->b", RouterConfig(source="a", dest="b", start="earliest", filter=("tag", "Eq", EVIL)), now_ms()
    ).router
    catch_up(Topic.objects.get(name="b").pk, now_ms())
    Router.objects.filter(pk=router.pk).update(state="blocked", last_error=EVIL)
    Failure.objects.create(ts=now_ms(), task=EVIL[:100], arguments=EVIL, error=EVIL, trace=EVIL)
    Cursor.objects.create(topic=router.source, kind="named", name=EVIL, updated_ts=1)
    Process.objects.create(id="p", kind="web", host=EVIL[:64], pid=1, started_ts=1, seen_ts=now_ms())
    append("a", wanted, check_rows(wanted), now_ms())
    seen = 0
    for page in (
        "/admin/",
        "/admin/topic/a/",
        "/admin/topic/b/records/",
        "/admin/topic/b/records/1/",
        "/admin/topic/b/records/?tag=" + EVIL.replace("&", "%26").replace("'", "%27"),
        "/admin/router/a-%3Eb/",
        "/admin/graph/",
        "/admin/graph/?prefix=<script>alert(1)&focus=<script>alert(1)",
        "/admin/live/?topic=<script>alert(1)&node=<script>alert(1)&tag=<script>alert(1)",
        "/admin/tasks/",
    ):
        shown = browser.get(page).content.decode()
        assert "<script>alert" not in shown, page
        seen += "&lt;script&gt;alert" in shown
    assert seen >= 8


def test_long_values_and_wrong_ones_are_refused_in_words(browser: Client, filled: Topic) -> None:
    for query, told in (
        ({"tag": "x" * 4000}, "at most 300 characters"),
        ({"tag": "x" * 299}, "expected at most 256"),
        ({"seq": "-1"}, "greater than or equal to 0"),
        ({"seq": "9" * 30}, "less than or equal to"),
        ({"at": "yesterday"}, "Enter a valid date/time"),
    ):
        answer = browser.get("/admin/topic/orders/records/", query)
        assert answer.status_code == 200
        assert told in errors(answer.content.decode()), (query, errors(answer.content.decode()))


def test_numbers_that_are_too_large_are_none(browser: Client, filled: Topic) -> None:
    assert browser.get(f"/admin/topic/orders/records/{2**63}/").status_code == 404
    for page in ("topics/topic/?p=", "topics/cursor/?p=", "push/delivery/?p=", "graph/?focus=orders&hops="):
        for digits in (20, 5_000):
            assert browser.get(f"/admin/{page}{'9' * digits}").status_code == 200, page


def test_a_nul_is_refused_wherever_it_stands(browser: Client, filled: Topic) -> None:
    for page in (
        "topic/a%00/",
        "topic/orders/records/?node=%00",
        "graph/?focus=%00",
        "complete/?q=%00",
        "live/?topic=%00",
        "topics/topic/?durability__exact=%00",
        "routers/router/?name=%00",
        "push/bustopic/%00/change/",
    ):
        assert browser.get(f"/admin/{page}").status_code == 400, page
    assert browser.get("/admin/topic/no%20name/").status_code == 404
    assert browser.get("/admin/router/no%20name/").status_code == 404


def test_a_list_is_filtered_only_as_it_offers(browser: Client) -> None:
    """By another field, a user could find a secret that no page shows, letter by letter."""
    for page in (
        "push/subscriber/?callback__startswith=https://a",
        "push/subscriber/?uuid__startswith=a",
        "topics/apikey/?secret_sha256__gt=a",
        "topics/topic/?name=a",
    ):
        assert browser.get(f"/admin/{page}").status_code == 400, page
    for page in (
        "push/subscriber/?paused__exact=1",
        "push/delivery/?outcome=failed",
        "pipeline/run/?job__exact=audit",
        "topics/apikey/?standing=valid",
        "topics/auditentry/?kind=key&since=day&q=a",
        "topics/cursor/?kind__exact=named",
        "topics/topic/?type__exact=log&durability__exact=fsync&o=1&p=1",
        "routers/router/?state=stalled&guarantee__exact=exactly_once",
    ):
        assert browser.get(f"/admin/{page}").status_code == 200, page


def test_a_test_record_is_appended_and_noted(browser: Client, filled: Topic) -> None:
    answer = browser.post("/admin/topic/orders/append/", {"data": '{"x": 1.0E+05}', "tag": "t", "node": ""})
    assert answer.status_code == 302, errors(answer.content.decode())
    assert answer.url == reverse("admin:console_record", args=["orders", 4])
    assert "1.0E+05" in browser.get(answer.url).content.decode()
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.kind, entry.name, entry.after["seq"]) == ("create", "records", "orders", 4)


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"data": "{"}, "invalid JSON in data"),
        ({"data": '1}],"node":"n","records":[{"data":2'}, "invalid JSON in data"),
        ({"data": "[" * 20_000 + "]" * 20_000}, "nested too deep"),
        (
            {"data": '"\ud83d"'.encode("utf-8", "surrogatepass").decode("utf-8", "replace"), "tag": "x" * 300},
            "at most 256",
        ),
    ],
)
def test_a_test_record_is_refused_as_by_the_api(
    browser: Client, filled: Topic, form: dict[str, str], told: str
) -> None:
    answer = browser.post("/admin/topic/orders/append/", {"tag": "", "node": "", **form})
    assert answer.status_code == 200
    found = errors(answer.content.decode())
    assert found
    assert told in found
    assert Topic.objects.select_related("head").get(name="orders").head.head_seq == 3


def test_the_overview_says_what_needs_a_hand(browser: Client, filled: Topic) -> None:
    Cursor.objects.filter(name="billing").update(updated_ts=1)
    Router.objects.update(state="blocked", last_error="dest audit is full")
    page = text(browser.get("/admin/").content.decode())
    for told in (
        "Router orders-&gt;audit is blocked and holds up 3 records for audit.",
        "Dest audit is full.",
        "Cursor billing of orders has not advanced",
        "1 task failed in the last day",
        "worker has no heartbeat.",
        "beat has no heartbeat.",
    ):
        assert told in page


def test_a_wall_shows_the_overview_and_the_way_back(browser: Client, filled: Topic) -> None:
    wall = browser.get("/admin/?range=24h&wall=1").content.decode()
    assert " wall" in re.search(r'<body class="([^"]*)"', wall)[1]  # type: ignore[index]
    assert '<a class="button" href="?range=24h">Leave</a>' in wall
    assert 'href="?range=24h%401d&amp;wall=1"' not in wall
    page = browser.get("/admin/?range=24h").content.decode()
    assert '<a class="button" href="?range=24h&amp;wall=1">Wall</a>' in page
    assert "data-clock" not in page


def test_the_overview_says_that_a_mirror_stands(browser: Client, filled: Topic) -> None:
    Cursor.objects.filter(name="billing").update(name="mirror:iad", updated_ts=1)
    page = text(browser.get("/admin/").content.decode())
    assert "Cursor mirror:iad of orders has not advanced" in page
    assert "Check that the mirror to iad runs." in page


def test_the_words_of_a_router(browser: Client, filled: Topic) -> None:
    page = text(browser.get("/admin/router/orders-%3Eaudit/").content.decode())
    assert "at_least_once from orders to audit, only tags that match vip:*, 3 records behind for" in page


def test_what_is_stored_beyond_what_is_shown_is_explained(browser: Client, db: None) -> None:
    put("a", "1", "2", "3")
    told = "A deleted record counts until its space is reclaimed"
    assert told not in browser.get("/admin/topic/a/").content.decode()
    delete_records("a", 3, None, now_ms())
    page = text(browser.get("/admin/topic/a/").content.decode())
    assert told in page
    assert "Payload shown 1 B Payload stored 3 B" in page


def test_pause_and_resume_ask_first(browser: Client, filled: Topic) -> None:
    url = "/admin/router/orders-%3Eaudit/pause/"
    for told, state, sent in (
        ("audit gets no records of orders", "paused", "1"),
        ("audit gets 3 records of orders", "running", "0"),
    ):
        assert told in text(browser.get(url).content.decode())
        assert browser.post(url, {"paused": sent}).status_code == 302
        assert Router.objects.get().state == state


def test_parts_of_names_are_found(browser: Client, db: None) -> None:
    for name in ("tenant7.stream-00500", "stream-1", "other"):
        put(name, "1")
    found = browser.get("/admin/topics/topic/", {"q": "stream-00500"}).content.decode()
    assert [row[0] for row in rows(found)] == ["tenant7.stream-00500"]
    names = [each["name"] for each in browser.get("/admin/complete/", {"q": "stream"}).json()["found"]]
    assert names == ["stream-1", "tenant7.stream-00500"]


def test_the_search_finds_topics_routers_groups_and_pages(browser: Client, filled: Topic) -> None:
    def found(typed: str) -> dict[str, str]:
        return {each["name"]: each["url"] for each in browser.get("/admin/find/", {"q": typed}).json()["found"]}

    assert found("orders") == {
        "orders": "/admin/topic/orders/",
        "orders->audit (router)": "/admin/router/orders-%3Eaudit/",
    }
    assert found("AUD") == {"Audit (page)": "/admin/topics/auditentry/"}
    every = found("")
    assert "audit" in every
    assert all(browser.get(url).status_code == 200 for url in every.values())


def test_the_search_says_that_there_are_more(browser: Client, db: None) -> None:
    def found() -> list[str]:
        return [each["name"] for each in browser.get("/admin/find/", {"q": "shop"}).json()["found"]]

    for place in range(8):
        put(f"shop.{place}", "1")
    assert found() == [f"shop.{place}" for place in range(8)]
    for place in range(9):
        put(f"shop.{place}", "1")
        put_router(f"shop>{place}", RouterConfig(source="shop.0", dest=f"to-{place}"), now_ms())
        run(join("shop.0", f"shop{place}", JoinQuery(member="worker-1", partitions=1), OPEN, now_ms()))
        run(webhooks.put(f"shop-{place}", PutWebhook(url="https://example.com/", topics=["a"]), OPEN, now_ms()))
    every = browser.get("/admin/find/", {"q": "shop"}).json()["found"]
    more = {each["name"]: each["url"] for each in every if "more" in each["name"]}
    assert list(more) == [f"shop (more {kind})" for kind in ("topics", "routers", "webhooks", "groups")]
    assert len(every) == 4 * 9
    for url in more.values():
        assert "shop" in browser.get(url).content.decode()


@pytest.mark.parametrize("count", [8, 9])
def test_tables_of_the_overview_say_that_there_are_more(browser: Client, db: None, count: int) -> None:
    for name in (f"t{place}" for place in range(count)):
        put(name, "1", "2")
        move(name, "reader", 0, None, now_ms() - 2 * STUCK_MS)
        put_router(f"{name}>x", RouterConfig(source=name, dest=f"x{name}", start="earliest", paused=True), now_ms())
    samples.sample(now_ms() - 60_000)
    for place in range(count):
        put(f"t{place}", "3")
    page = text(browser.get("/admin/").content.decode())
    for what in ("topics", "routers", "readers"):
        assert (f"There are more: all {what} ." in page) == (count > 8)


def test_the_page_of_a_topic_says_that_there_are_more(
    browser: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said() -> str:
        return text(browser.get("/admin/topic/orders/").content.decode())

    monkeypatch.setattr(reading, "MOST_ROWS", 2)
    monkeypatch.setattr(reading, "MOST_SESSIONS", 2)
    put("orders", "1")
    for place in range(3):
        assert "There are more" not in said()
        assert "More watch sessions" not in said()
        put_router(f"orders>{place}", RouterConfig(source="orders", dest=f"to-{place}"), now_ms())
        move("orders", f"c{place}", 1, None, now_ms())
        create_session(Watch({"orders": Start()}), OPEN, False, now_ms())
    for what in ("There are more: all routers of this topic .", "There are more: all cursors of this topic ."):
        assert what in said()
    assert "More watch sessions read this topic." in said()
    page = browser.get("/admin/topic/orders/").content.decode()
    for url in re.findall(r'There are more: <a href="([^"]+)"', page):
        assert "orders" in browser.get(url).content.decode()


def test_the_overview_says_that_more_problems_closed(browser: Client, db: None) -> None:
    fields = {"level": "warn", "text": "It stood.", "since_ts": 1, "opened_ts": 1}
    for place in range(11):
        if place == 10:
            assert "10 closed in the last day" in text(browser.get("/admin/").content.decode())
        Signal.objects.create(kind="k", object=f"o{place}", closed_ts=now_ms(), **fields)
    assert "10 or more closed in the last day" in text(browser.get("/admin/").content.decode())


def test_routers_are_filtered_by_the_state_that_is_shown(browser: Client, db: None) -> None:
    from django.db import connection

    for name in ("stalled", "quick", "fresh", "paused"):
        put(f"{name}-from", "1")
        config = RouterConfig(source=f"{name}-from", dest=f"{name}-to", start="head" if name == "quick" else "earliest")
        config.paused = name == "paused"
        put_router(name, config, now_ms())
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE topics_record SET ts = 1 WHERE topic_id IN (SELECT source_id FROM routers_router WHERE name <> 'fresh')"
        )
    Cursor.objects.exclude(name="fresh").update(updated_ts=1)
    for state, names in (
        ("stalled", {"stalled"}),
        ("running", {"quick", "fresh"}),
        ("paused", {"paused"}),
        ("blocked", set()),
    ):
        found = rows(browser.get("/admin/routers/router/", {"state": state}).content.decode())
        assert {row[0] for row in found} == names, state


@pytest.mark.parametrize(
    "model",
    [model for model, page in site._registry.items() if isinstance(page, DomainAdmin)],
    ids=lambda m: m.__name__,
)
def test_empty_lists_say_what_to_do(browser: Client, db: None, model: type[Model]) -> None:
    text = browser.get(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")).content.decode()
    assert str(site._registry[model].nothing_yet) in text


def test_lists_go_on(browser: Client, db: None) -> None:
    """However many there are: a page has a link to the next one."""
    publisher = BusClient.objects.create(name="shop", created_ts=0)
    BusTopic.objects.bulk_create(BusTopic(name=f"t{n:03}", publisher=publisher, created_ts=0) for n in range(101))
    first = browser.get("/admin/push/bustopic/").content.decode()
    assert "t099" in first
    assert "t100" not in first
    assert "1–100" in first
    (link,) = re.findall(r'<a href="([^"]+)">Next ›', first)
    assert "t100" in browser.get(f"/admin/push/bustopic/{link}").content.decode()


def test_pages_with_nothing_to_show_say_so(browser: Client, db: None) -> None:
    assert "Nothing matches" in browser.get("/admin/topics/topic/", {"q": "x"}).content.decode()
    assert "No routers yet" in browser.get("/admin/graph/").content.decode()
    assert "All 0" not in browser.get("/admin/").content.decode()


@pytest.mark.parametrize(
    ("page", "entry"),
    [
        ("/admin/", "Overview"),
        ("/admin/topic/orders/records/", "Topics"),
        ("/admin/router/orders->audit/", "Routers"),
        ("/admin/routers/router/add/", "Routers"),
        ("/admin/push/bustopic/", "Bus"),
        ("/admin/pipeline/rollup/", "Runs"),
        ("/admin/topics/auditentry/", "Audit"),
        ("/admin/all/", None),
    ],
)
def test_the_navigation_says_where_a_page_belongs(browser: Client, filled: Topic, page: str, entry: str | None) -> None:
    (nav,) = re.findall(r'<nav class="nav".*?</nav>', browser.get(page).content.decode(), re.DOTALL)
    assert re.findall(r'aria-current="page">([^<]+)<', nav) == ([entry] if entry else [])
