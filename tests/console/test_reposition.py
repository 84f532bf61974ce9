"""An operator moves a router's cursor: allowed positions, effects, and the permission."""

import pytest
from django.test import Client
from django.urls import reverse

from base.clock import now_ms
from base.errors import CursorMoved, Incompatible, InvalidRequest
from routers import reposition
from routers.models import Router
from routers.routers import RouterConfig
from routers.tasks import forward
from store.script import run
from tests.admin.pages import errors, put, text
from tests.scripts import delete_records, put_router, put_topic, set_paused
from topics.config import Config
from topics.models import AuditEntry, Cursor, Topic


def test_a_seq_that_no_topic_has_is_refused(browser: Client, blocked: Router) -> None:
    url = reverse("admin:console_move", args=["a->full"])
    page = browser.post(url, {"to": "seq", "seq": "1000000000000000000", "expected": "2"}).content.decode()
    assert "Ensure this value is less than or equal to" in errors(page)
    assert "will not forward" not in text(page)


@pytest.fixture
def blocked(db: None) -> Router:
    """A router into a topic that takes two records, and rejects the third."""
    put("a", "1", "2", "3", "4")
    put_topic("full", Config(cap_records=2, discard="reject"), now_ms())
    router = put_router("a->full", RouterConfig(source="a", dest="full", start="earliest"), now_ms()).router
    forward(router.source_id)
    router.refresh_from_db()
    assert router.state == "blocked"
    return router


def seq(router: Router) -> int:
    return Cursor.objects.get(pk=router.cursor_id).seq


def count(name: str) -> int:
    return Topic.objects.select_related("head").get(name=name).head.count


def test_it_skips_the_record_that_does_not_fit(browser: Client, blocked: Router) -> None:
    url = reverse("admin:console_move", args=["a->full"])
    sent = {"to": "skip", "seq": "", "expected": "2"}
    page = text(browser.post(url, sent).content.decode())
    assert "This router will not forward up to 1 record of a, seqs 3 to 3, to full" in page
    assert seq(blocked) == 2
    assert browser.post(url, {**sent, "target": "3", "confirmed": "yes"}).status_code == 302
    assert seq(blocked) == 3
    delete_records("full", 10, None, now_ms())
    forward(blocked.source_id)
    assert count("full") == 1
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.kind, entry.name, entry.before, entry.after) == (
        "change",
        "router",
        "a->full",
        {"seq": 2},
        {"seq": 3},
    )
    assert entry.actor_name == "boss"


@pytest.mark.parametrize(("guarantee", "twice"), [("at_least_once", True), ("exactly_once", False)])
def test_what_is_rewound_is_forwarded_again(db: None, guarantee: str, twice: bool) -> None:
    put("a", "1", "2", "3")
    config = RouterConfig(source="a", dest="b", start="earliest", guarantee=guarantee)
    router = put_router("a->b", config, now_ms()).router
    forward(router.source_id)
    set_paused("a->b", True)
    run(reposition.move("a->b", 1, 3, now_ms()))
    set_paused("a->b", False)
    forward(router.source_id)
    assert count("b") == (5 if twice else 3)


def test_the_next_record_is_the_first_that_the_source_shows(db: None) -> None:
    put("a", "1", tag="x")
    put("a", "2", "3")
    router = put_router("a->b", RouterConfig(source="a", dest="b", start="earliest", paused=True), now_ms()).router
    delete_records("a", None, ("tag", "Eq", "x"), now_ms())
    from routers.stored import find

    assert run(reposition.place(run(find("a->b")))).next_seq == 2
    assert router.state == "paused"


def test_one_that_runs_is_not_moved(db: None) -> None:
    put_router("a->b", RouterConfig(source="a", dest="b"), now_ms())
    with pytest.raises(Incompatible, match="pause the router"):
        run(reposition.move("a->b", 0, 0, now_ms()))


def test_it_is_not_moved_from_where_it_is_not(blocked: Router) -> None:
    with pytest.raises(CursorMoved):
        run(reposition.move("a->full", 3, 1, now_ms()))
    with pytest.raises(InvalidRequest, match="expected 0 to 4"):
        run(reposition.move("a->full", 5, 2, now_ms()))
    assert seq(blocked) == 2


def test_a_user_without_permission_does_not_move_it(viewer: Client, blocked: Router) -> None:
    url = reverse("admin:console_move", args=["a->full"])
    assert viewer.get(url).status_code == 403
    sent = {"to": "head", "seq": "", "expected": "2", "target": "4", "confirmed": "yes"}
    assert viewer.post(url, sent).status_code == 403
    assert seq(blocked) == 2
