"""The graph: the shown part, a layout that is kept until the graph changes, and the text of the picture."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from base.clock import now_ms
from console import drawing, layout
from console.live import PARTS
from console.models import Layout
from console.network import Wanted, network
from routers.models import Router
from routers.routers import RouterConfig
from tests.admin.pages import put
from tests.scripts import create_session, move, put_router
from topics.models import Topic
from watch.sessions import Start, Watch
from wire.keys import OPEN


def lead(*pairs: str, **options: Any) -> None:
    for pair in pairs:
        source, _, dest = pair.partition(">")
        put_router(pair, RouterConfig(source=source, dest=dest, **options), now_ms())


def names(wanted: Wanted) -> set[str]:
    return {node.name for node in network(wanted, now_ms()).topics.values()}


@pytest.fixture
def chain(db: None) -> None:
    lead("a>b", "b>c", "c>d", "x.1>x.2")
    put("alone", "1")


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (Wanted(), {"a", "b", "c", "d", "x.1", "x.2", "alone"}),
        (Wanted(focus="b", hops=1), {"a", "b", "c"}),
        (Wanted(focus="d", hops=2), {"b", "c", "d"}),
        (Wanted(focus="none"), set()),
        (Wanted(prefix="x."), {"x.1", "x.2"}),
        (Wanted(prefix="al"), {"alone"}),
    ],
)
def test_a_part_of_the_graph(chain: None, wanted: Wanted, shown: set[str]) -> None:
    assert names(wanted) == shown


def test_the_layout_is_kept_until_the_graph_changes(
    browser: Client, chain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    monkeypatch.setattr(
        drawing, "ask_graphviz", lambda body, ask=drawing.ask_graphviz: (asked.append(body), ask(body))[1]
    )
    browser.get("/admin/graph/")
    put("a", "1", "2")  # numbers move nothing
    Router.objects.filter(name="a>b").update(state="paused")
    browser.get("/admin/graph/")
    assert len(asked) == 1
    lead("d>e")
    page = browser.get("/admin/graph/").content.decode()
    assert len(asked) == 2
    assert 'class="edge paused"' in page


def test_old_layouts_go(browser: Client, chain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "MOST_KEPT", 2)
    for focus in ("a", "b", "d", "x.1"):
        browser.get("/admin/graph/", {"focus": focus, "hops": "1"})
    assert Layout.objects.count() == 2


def test_what_is_live_names_what_is_drawn(browser: Client, chain: None) -> None:
    put("a", "1")
    page = browser.get("/admin/graph/").content.decode()
    told = json.loads(PARTS["graph"].render("prefix=&focus=&hops=2"))
    assert set(told["edges"]) == set(re.findall(r'id="(e\d+)"', page))
    assert set(told["nodes"]) == set(re.findall(r'id="(n\d+)"', page))
    assert len(told["edges"]) == 4
    before = told["structure"]
    lead("d>e")
    assert json.loads(PARTS["graph"].render("prefix=&focus=&hops=2"))["structure"] != before


def test_cycles_readers_and_states_are_drawn(browser: Client, db: None) -> None:
    put("m1", "1", "2")
    lead("m1>m2", "m2>m1", allow_cycle=True)
    move("m1", "billing", 1, None, now_ms())
    for place in range(6):
        move("m2", f"c{place}", 0, None, now_ms())
    wid, *_ = create_session(Watch({"m1": Start()}), OPEN, False, now_ms())
    from topics.models import WatchSession

    WatchSession.objects.filter(wid=wid).update(open=True)
    Router.objects.filter(name="m1>m2").update(state="blocked", last_error="<b>full</b>")
    page = browser.get("/admin/graph/").content.decode()
    assert page.count("↻</text>") == 2
    assert 'class="edge blocked"' in page
    assert "&lt;b&gt;full&lt;/b&gt;" in page
    for told in (">billing<", ">1 behind<", ">6 cursors<", ">1 watching<"):
        assert told in page


def test_routers_that_keep_the_order_of_writes_are_told(browser: Client, chain: None) -> None:
    Router.objects.filter(name="a>b").update(ordered=True)
    edges = {edge.name: edge for edge in network(Wanted(), now_ms()).edges}
    assert {name for name, edge in edges.items() if edge.ordered} == {"a>b"}
    picture, _, table = browser.get("/admin/graph/").content.decode().partition("In words")
    assert picture.count("in the order of their writes") == 1
    assert table.count(">ordered</span>") == 1
    assert "in the order of their writes" in browser.get("/admin/router/a>b/").content.decode()
    assert "in the order of their writes" not in browser.get("/admin/router/b>c/").content.decode()


def test_many_edges_are_laid_out_too() -> None:
    nodes = {str(place): (100.0, 38.0) for place in range(60)}
    edges = {str(place): (str(place % 50), str((place * 7 + 1) % 60)) for place in range(layout.MANY + 1)}
    edges = {id: ends for id, ends in edges.items() if ends[0] != ends[1]}
    laid = layout.lay_out(layout.Wanted(nodes, {**edges, "back": ("40", "2")}))
    assert set(laid.nodes) == set(nodes)
    assert set(laid.edges) == {*edges, "back"}
    for x, y in laid.nodes.values():
        assert 0 <= x <= laid.width
        assert 0 <= y <= laid.height


def test_a_deep_graph_is_laid_out_without_its_long_edges_and_has_them() -> None:
    nodes = {str(place): (100.0, 38.0) for place in range(layout.MANY + 10)}
    chain = {str(place): (str(place), str(place + 1)) for place in range(len(nodes) - 1)}
    long = {f"{500 + place}": (str(place), str(place + 60)) for place in range(80)}
    wanted = layout.Wanted(nodes, {**chain, **long, "900": ("150", "20")})  # the last one closes a cycle
    assert layout.far(wanted) == {*long, "900"}
    assert not any(f"id={id}]" in layout.graph_of(wanted) for id in long)
    laid = layout.lay_out(wanted)
    assert set(laid.edges) == set(wanted.edges)
    places = [laid.nodes[str(place)] for place in range(len(nodes))]
    assert places == sorted(places, key=lambda place: place[0])  # left to right, as the records go
    for id, (path, _) in laid.edges.items():
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path)]
        assert min(numbers[1::2]) >= 0, id  # no curve leaves the picture at its top


def test_too_many_topics_are_left_out_and_said(browser: Client, chain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from console import network as data

    monkeypatch.setattr(data, "MOST_TOPICS", 4)
    assert "topics are left out" in browser.get("/admin/graph/").content.decode()


def test_a_graph_that_takes_too_long_still_has_its_table(
    browser: Client, chain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "LAYOUT_SECONDS", 0.001)
    page = browser.get("/admin/graph/").content.decode()
    assert "too large to draw" in page
    assert "c&gt;d" in page
    assert Topic.objects.count() == 7


def test_a_graph_of_more_routers_than_a_picture_holds_says_so(
    browser: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.network.MOST_ROUTERS", 1)
    lead("a>b", "a>c")
    page = browser.get("/admin/graph/").content.decode()
    assert "1 routers between these topics are left out" in page
    assert page.count('<g class="edge ') == 1
