"""Topics in the admin: the list, the forms, and what they refuse in the API's words."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from base.clock import now_ms
from routers.models import Router
from routers.routers import RouterConfig
from tests.admin.pages import errors, put, rows, text
from tests.scripts import delete_topic, move, put_router, put_topic
from topics.admin import topics as pages
from topics.config import Config
from topics.models import Topic

LIST = reverse("admin:topics_topic_changelist")
ADD = reverse("admin:topics_topic_add")
DEFAULTS = {
    "durability": "disk",
    "ttl_ms": "0",
    "cap_records": "0",
    "cap_bytes": "0",
    "discard": "old",
    "auto_create": "on",
    "idempotency_window_ms": "120000",
    "dedupe_node": "on",
    "numbers": "any",
    "priority": "",
    "auto_priority": "on",
}

# Ten thousand topics like the one called pattern.
MANY = [
    """
    CREATE TEMPORARY TABLE many ON COMMIT DROP AS
    SELECT t.*, n FROM topics_topic t, generate_series(1, 10000) n WHERE name = 'pattern'
    """,
    "UPDATE many SET id = nextval('topics_topic_id_seq'), name = 'many:' || to_char(n, 'FM00000')",
    "ALTER TABLE many DROP COLUMN n",
    "INSERT INTO topics_topic SELECT * FROM many",
    """
    CREATE TEMPORARY TABLE heads ON COMMIT DROP AS
    SELECT h.*, many.id FROM topics_topichead h JOIN topics_topic t ON t.id = h.topic_id, many WHERE t.name = 'pattern'
    """,
    "UPDATE heads SET topic_id = id",
    "ALTER TABLE heads DROP COLUMN id",
    "INSERT INTO topics_topichead SELECT * FROM heads",
]


def change(topic: Topic) -> str:
    return reverse("admin:topics_topic_change", args=[topic.pk])


def delete(topic: Topic) -> str:
    return reverse("admin:topics_topic_delete", args=[topic.pk])


def get(client: Client, url: str, **query: Any) -> str:
    response = client.get(url, query)
    assert response.status_code == 200, response
    return response.content.decode()


def post(client: Client, url: str, status: int = 302, **data: Any) -> str:
    response = client.post(url, data)
    assert response.status_code == status, errors(response.content.decode())
    return response.content.decode()


# -- The list ---------------------------------------------------------------------------------------------------------


def test_the_list_shows_what_topics_hold(browser: Client, queries: Any) -> None:
    put("b", "1", '"two"')
    put_topic("a", Config(durability="fsync"), now_ms())
    with queries(1):
        page = get(browser, LIST)
    (a, b) = rows(page)
    assert a[:7] == ["a", "log", "fsync", "0", "1", "0", "0 B"]
    assert b[:7] == ["b", "log", "disk", "2", "1", "2", "6 B"]


def test_ten_thousand_topics_are_one_query_a_page(browser: Client, queries: Any) -> None:
    put_topic("pattern", Config(), now_ms())
    with connection.cursor() as cursor:
        for statement in MANY:
            cursor.execute(statement)
    with queries(1):
        page = get(browser, LIST)
    assert (len(rows(page)), rows(page)[0][0]) == (100, "many:00001")
    assert "1–100 Next" in text(page)
    assert "10001" not in page
    with queries(1):
        page = get(browser, LIST, p=3)
    assert rows(page)[0][0] == "many:00201"
    assert "‹ Previous 201–300 Next ›" in text(page)
    with queries(1):
        page = get(browser, LIST, q="many:0777")
    assert [row[0] for row in rows(page)] == [f"many:0777{n}" for n in range(10)]
    page = get(browser, LIST, p=101)
    assert [row[0] for row in rows(page)] == ["pattern"]
    assert "Next ›" not in page


def test_a_prefix_is_looked_up_in_the_index(browser: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN " + str(Topic.objects.filter(name__startswith="a:").order_by("name").query).replace("a:%", "'a:%'")
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Index Cond: ((name)::text >= 'a:'::text)" in plan or "Index Cond: (((name)::text >= 'a:'::text)" in plan
    assert "Sort" not in plan


def test_a_prefix_is_byte_exact(browser: Client) -> None:
    for name in ("Ab", "ab", "a_b", "axb"):
        put_topic(name, Config(), now_ms())
    assert [row[0] for row in rows(get(browser, LIST, q="a_"))] == ["a_b"]
    assert [row[0] for row in rows(get(browser, LIST, q="A"))] == ["Ab"]


@pytest.mark.parametrize("page", ["0", "-3", "x", "999"])
def test_a_page_that_is_not_there_is_no_error(browser: Client, page: str) -> None:
    put_topic("a", Config(), now_ms())
    assert browser.get(LIST, {"p": page}).status_code == 200


def test_a_page_needs_a_login(db: None) -> None:
    topic = put("a", "1")
    for url in (LIST, ADD, change(topic), delete(topic), reverse("admin:topics_topic_trim", args=[topic.pk])):
        response = Client().get(url)
        assert response.status_code == 302
        assert "/login/" in response["Location"]


# -- Create and configure ---------------------------------------------------------------------------------------------


def test_it_creates_a_topic(browser: Client) -> None:
    assert "with a letter or digit first" in get(browser, ADD)
    post(
        browser, ADD, **{**DEFAULTS, "name": "new:one", "durability": "fsync", "cap_records": "5", "priority": "-1000"}
    )
    topic = Topic.objects.select_related("head").get(name="new:one")
    assert (topic.durability, topic.cap_records, topic.priority) == ("fsync", 5, -1000)
    assert (topic.created_ts > 0, topic.head.head_seq, topic.dead_letter) == (True, 0, None)
    assert "new:one" in get(browser, change(topic))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "no good"}, "invalid topic 'no good'"),
        ({"name": ""}, "This field is required"),
        ({"ttl_ms": "-1"}, "expected a whole number of at least 0"),
        ({"cap_bytes": str(2**62 + 1)}, "expected a whole number of at most 4611686018427387904"),
        ({"ttl_ms": "soon"}, "Enter a whole number"),
        ({"durability": "paper"}, "paper is not one of the available choices"),
        ({"name": "taken"}, "already exists"),
        ({"priority": "-1001"}, "greater than or equal to -1000"),
        ({"priority": "5000"}, "less than or equal to 1000"),
    ],
)
def test_it_refuses_what_the_api_refuses(browser: Client, given: dict[str, str], told: str) -> None:
    put_topic("taken", Config(ttl_ms=7), now_ms())
    page = post(browser, ADD, 200, **{**DEFAULTS, "name": "new", **given})
    assert told in errors(page).replace("&#x27;", "'").replace("&gt;", ">").replace("&lt;", "<")
    assert list(Topic.objects.values_list("name", "ttl_ms")) == [("taken", 7)]


def test_it_refuses_above_the_limit_of_topics(browser: Client, settings: Any) -> None:
    put_topic("only", Config(), now_ms())
    settings.TOPICS_MAX_TOPICS = 1
    page = post(browser, ADD, 200, **{**DEFAULTS, "name": "new"})
    assert "the cap of 1 is reached (topics)" in errors(page)


def test_it_changes_a_config_and_evicts_as_the_api_does(browser: Client) -> None:
    topic = put("a", *map(str, range(10)))
    version = topic.head.version
    post(browser, change(topic), **{**DEFAULTS, "cap_records": "3"})
    topic = Topic.objects.select_related("head").get(name="a")
    assert (topic.cap_records, topic.head.count, topic.head.cap_lost_seq) == (3, 3, 7)
    assert topic.head.version > version
    assert "Changed cap_records" in get(browser, reverse("admin:topics_topic_history", args=[topic.pk]))


def test_name_and_type_stay(browser: Client) -> None:
    topic = put("a", "1")
    post(browser, change(topic), **{**DEFAULTS, "name": "b", "type": "queue"})
    assert list(Topic.objects.values_list("name", "type")) == [("a", "log")]


def test_a_bad_change_is_refused_beside_its_field(browser: Client) -> None:
    topic = put("a", "1")
    page = post(browser, change(topic), 200, **{**DEFAULTS, "ttl_ms": "-5"})
    assert "expected a whole number of at least 0" in errors(page)
    row = page.partition("field-ttl_ms")[2].partition("field-cap_records")[0]
    assert "errorlist" in row
    assert Topic.objects.get(name="a").ttl_ms == 0


def test_a_topic_that_was_recreated_meanwhile_is_left_alone(browser: Client) -> None:
    topic = put("a", "1")
    delete_topic("a", False, now_ms())
    put("a", "1")
    assert browser.get(change(topic)).status_code == 302  # to the index, with a message
    assert Topic.objects.get(name="a").ttl_ms == 0


@pytest.mark.parametrize("id", ["99999999", "9" * 30, "x"])
def test_an_absent_topic_leads_back(browser: Client, id: str) -> None:
    for page in ("change", "delete", "history"):
        assert browser.get(f"{LIST}{id}/{page}/").status_code in (302, 404)
    assert browser.get(f"{LIST}{id}/trim/").status_code in (302, 404)


def test_a_viewer_sees_and_changes_nothing(viewer: Client) -> None:
    topic = put("a", "1")
    assert "cap" in get(viewer, change(topic)).lower()
    assert rows(get(viewer, LIST))
    for url in (ADD, change(topic), delete(topic), reverse("admin:topics_topic_trim", args=[topic.pk])):
        assert viewer.post(url, {**DEFAULTS, "name": "b", "post": "yes"}).status_code == 403
    assert list(Topic.objects.values_list("name", flat=True)) == ["a"]


# -- Delete -----------------------------------------------------------------------------------------------------------


def test_the_confirmation_says_what_will_be_lost(browser: Client, queries: Any) -> None:
    topic = put("orders", *['"0123456789"'] * 1500)
    put_router("orders->audit", RouterConfig(source="orders", dest="audit"), now_ms())
    put_router("in", RouterConfig(source="web", dest="orders"), now_ms())
    move("orders", "billing", 5, None, now_ms())
    with queries(6):
        page = text(get(browser, delete(topic)))
    summary = ("Records: 1,500", "Payload: 18.0 kB", "Routers: 2", "Named cursors: 1")
    for told in (*summary, "Routers: in, orders-&gt;audit", "Named cursors: billing of orders"):
        assert told in page
    assert Topic.objects.filter(name="orders").exists()
    post(browser, delete(topic), post="yes")
    assert not Topic.objects.filter(name="orders").exists()
    assert not Router.objects.exists()


def test_the_confirmation_names_the_first_of_many(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_NAMED", 2)
    topic = put("orders", "1")
    for name in ("a", "b", "c"):
        put_router(name, RouterConfig(source="orders", dest=f"to-{name}"), now_ms())
        move("orders", f"of-{name}", 1, None, now_ms())
    page = text(get(browser, delete(topic)))
    named = "Named cursors: of-a of orders, of-b of orders, …"
    for told in ("Routers: 3", "Named cursors: 3", "Routers: a, b, …", named):
        assert told in page


def test_selected_topics_are_deleted_with_their_routers(browser: Client) -> None:
    topics = [put(name, "1", "2") for name in ("a", "b", "c")]
    put_router("r", RouterConfig(source="b", dest="c"), now_ms())
    chosen = {"action": "delete_selected", "_selected_action": [topics[0].pk, topics[1].pk]}
    page = text(post(browser, LIST, 200, **chosen))
    assert "Topics: 2" in page
    assert "Records: 4" in page
    assert "Routers: r" in page
    post(browser, LIST, **chosen, post="yes")
    assert list(Topic.objects.values_list("name", flat=True)) == ["c"]
    assert not Router.objects.exists()
    assert put("a", "1").head.head_seq == 3  # above the head of the one that was deleted


def test_routers_need_their_own_permission(viewer: Client, django_user_model: Any) -> None:
    from django.contrib.auth.models import Permission

    topic = put("a", "1")
    put_router("r", RouterConfig(source="a", dest="b"), now_ms())
    user = django_user_model.objects.get(username="viewer")
    user.user_permissions.add(Permission.objects.get(codename="delete_topic"))
    assert "permission" in text(get(viewer, delete(topic)))
    assert viewer.post(delete(topic), {"post": "yes"}).status_code == 403
    assert Topic.objects.filter(name="a").exists()
