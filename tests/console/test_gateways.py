"""The gateways on the graph page: their picture, a gateway that does not answer, and refused answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.console.chromium import Chromium, signed_in
from tests.gateway.running import Running, by_topic
from tests.instances import Instance, free_port, start, until

pytestmark = [pytest.mark.deep(38), pytest.mark.browser]
GRAPH = "/admin/graph/"


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Running]]:
    """Two gateways of one configuration. Nothing listens at the server `us`."""
    with ExitStack() as stack:
        made = []
        for name in ("first", "second"):
            folder = tmp_path_factory.mktemp(name)
            made.append(Running(folder, {}))
            stack.callback(made[-1].kill)
        yield made[0], made[1]


@pytest.fixture(scope="module")
def silent() -> Iterator[int]:
    """The port of a gateway that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def instance(gateways: tuple[Running, Running], silent: int) -> Iterator[Instance]:
    """A server that shows the gateways, and is the server `eu` behind them."""
    ports = (gateways[0].port, gateways[1].port, silent)
    with start(TOPICS_GATEWAYS=",".join(f"http://127.0.0.1:{port}" for port in ports)) as made:
        configuration = by_topic(made.port, free_port())
        for each in gateways:
            each.configuration = configuration
            each.start()
        yield made


@pytest.fixture(scope="module")
def page(instance: Instance) -> Iterator[Chromium]:
    with signed_in(instance) as found:
        yield found


def test_it_shows_the_configuration_with_rates_and_states(page: Chromium, gateways: tuple[Running, Running]) -> None:
    first, second = gateways
    page.complaints()
    page.visit(GRAPH)
    page.shows("degraded")
    stopping = threading.Event()

    def load() -> None:
        client = first.client()
        while not stopping.wait(0.02):
            assert client.append("eu.shown", 1).status in (200, 201)

    loading = threading.Thread(target=load)
    loading.start()
    try:
        until(lambda: any(rate(row) > 0 for row in rows(page, "Routes")), "a rate")
        assert [row[:3] for row in rows(page, "Routes")] == [
            ["all", "all", "router by-topic (TopicRouter)"],
            ["all", "eu", "cluster eu"],
            ["all", "us", "cluster us"],
        ]
        until(lambda: rate(rows(page, "Routes")[1]) > 0, "the rate of the route")
        assert rate(rows(page, "Routes")[2]) == 0
    finally:
        stopping.set()
        loading.join()
    states = {name: row for name, *row in rows(page, "Gateways")}
    assert states[f"127.0.0.1:{first.port}"][0] == "degraded"
    assert states[f"127.0.0.1:{first.port}"][5] == "all/us"
    assert states[f"127.0.0.1:{first.port}"][1] == states[f"127.0.0.1:{second.port}"][1]
    page.shows("breaker open")
    assert [row[:3] for row in rows(page, "Nodes")] == [["eu", "0", "up"], ["us", "0", "down"]]
    assert "do not serve the same" not in page.text()
    picture = page.text("[aria-label='Picture of the gateways']")
    for name in ("by-topic", "TopicRouter", "node 0", f"127.0.0.1:{first.port}"):
        assert name in picture
    assert page.violations() == []
    assert page.overflow() == 0
    page.visit(GRAPH, 390)
    assert page.overflow() == 0
    assert page.complaints() == []


def test_only_staff_sees_them(instance: Instance) -> None:
    assert instance.get("/admin/stream/gateways/all")[0] == 401
    assert "Gateways" not in instance.get(GRAPH)[1]


def test_one_that_does_not_answer_is_said_and_delays_nothing(page: Chromium, silent: int) -> None:
    page.visit(GRAPH)
    page.shows(f"The gateway 127.0.0.1:{silent} has not answered for")
    page.shows("timed out")
    assert {name: row[0] for name, *row in rows(page, "Gateways")}[f"127.0.0.1:{silent}"] == "silent"


def test_gateways_that_do_not_agree_are_named(page: Chromium, gateways: tuple[Running, Running]) -> None:
    first, second = gateways
    before = second.configuration
    second.write({**before, "virtualClusters": [{**before["virtualClusters"][0], "name": "other"}]})
    page.visit(GRAPH)
    page.shows("The gateways do not serve the same configuration")
    assert len({row[2] for row in rows(page, "Gateways")} - {"–"}) == 2
    second.write(before)
    until(lambda: "do not serve the same" not in page.text(), "the gateways to agree")

    second.stop()
    page.shows(f"The gateway 127.0.0.1:{second.port} has not answered for")
    page.shows("This page shows its state at")
    assert {name: row[0] for name, *row in rows(page, "Gateways")}[f"127.0.0.1:{first.port}"] == "degraded"


def rows(page: Chromium, label: str) -> list[list[str]]:
    """The cells of the tables whose label begins so."""
    found = page.run(
        "return [...document.querySelectorAll(`[aria-label^='${arguments[0]}'] tbody tr`)]"
        ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))",
        label,
    )
    return [list(map(str, row)) for row in found]


def rate(row: list[str]) -> float:
    """The requests a second of a row of the routes; 0 where they are not known yet."""
    return float(row[3].removesuffix("/s").replace(",", "")) if row[3] != "–" else 0.0
