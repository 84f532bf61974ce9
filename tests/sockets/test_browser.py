"""A WebSocket in a headless Chromium: a page publishes, follows and joins a group. A page of another origin gets no socket."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.docs.printed import snippets
from tests.instances import Instance, until
from tests.sockets.client import Socket
from tests.watch.blank import blank_pages
from tests.watch.browser import Browser, open_browser
from tests.watch.wire import Api

pytestmark = [pytest.mark.deep(37), pytest.mark.browser]
KEY = "a-secret-of-16-or-more"

PAGE = """
window.shown = []; window.ended = null;
const socket = new WebSocket(%(url)s);
const send = (command) => socket.send(JSON.stringify(command));
socket.onopen = () => send({op: "subscribe", request_id: "s", topic: "room", tail: true});
socket.onclose = ({code}) => { window.ended = code; };
socket.onmessage = ({data}) => {
  const frame = JSON.parse(data);
  window.shown.push(frame);
  if (frame.op === "subscribed") send({op: "join", request_id: "j", topic: "room", group: "readers"});
  if (frame.op === "joined") {
    send({op: "publish", request_id: "p", topic: "room", records: [{data: "schön"}, {data: "x".repeat(200000)}]});
  }
};
0
"""


def visit(browser: Browser, page: str, url: str) -> None:
    """Opens a socket from a page."""
    browser.visit(page)
    until(lambda: browser.run("location.href") == page and browser.run("document.readyState") == "complete", page)
    browser.run(PAGE % {"url": json.dumps(url)})


def ops(browser: Browser) -> list[str]:
    return browser.run("window.shown.map((frame) => frame.op)")


def data(browser: Browser) -> list[str]:
    """The data of all records. A large one comes in a frame of its own."""
    return browser.run(
        "window.shown.filter(({op}) => op === 'record').flatMap(({records}) => records.map(({data}) => data))"
    )


@pytest.mark.parametrize("deflate", ["0", "1"])
def test_a_page_publishes_and_receives_and_other_origins_get_no_socket(
    instances: Callable[..., Instance], deflate: str
) -> None:
    with blank_pages() as port, open_browser() as browser:
        allowed, foreign = f"http://127.0.0.1:{port}/", f"http://localhost:{port}/"
        instance = instances(
            CORS_ALLOWED_ORIGINS=allowed.rstrip("/"),
            TOPICS_API_KEYS=f"{KEY}:read+write+admin",
            TOPICS_WS_DEFLATE=deflate,
            WEB_WORKERS="1",
        )
        Api(instance.port, KEY).done("PUT", "/v0/topics/room", {})
        url = f"ws://127.0.0.1:{instance.port}/v0/ws"
        visit(browser, allowed, f"{url}?token={KEY}")
        until(lambda: len(data(browser)) == 4, "the records of the subscription and of the group")
        assert sorted(data(browser)) == ["schön", "schön", "x" * 200_000, "x" * 200_000]
        assert {"subscribed", "joined", "assigned", "ack", "record"} <= set(ops(browser))
        visit(browser, f"{instance.url}/v0/health", f"{url}?token={KEY}")
        until(lambda: "record" in ops(browser), "a page of the server itself")
        for page, address in ((foreign, f"{url}?token={KEY}"), (allowed, url), (allowed, f"{url}?token=other")):
            visit(browser, page, address)
            assert until(lambda: browser.run("window.ended"), "the browser to give up") == 1006
            assert ops(browser) == []
        visit(browser, allowed, f"{url}?token={KEY}")
        until(lambda: "ack" in ops(browser), "the socket")
        instance.stop()
        assert until(lambda: browser.run("window.ended"), "the end of the socket") == 1001


def test_a_page_learns_that_the_server_has_no_room(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_MAX_STREAMS_PER_KEY="1", WEB_WORKERS="1")
    Api(instance.port).done("PUT", "/v0/topics/room", {})
    url = f"ws://127.0.0.1:{instance.port}/v0/ws"
    with Socket(instance.port), open_browser() as browser:
        visit(browser, f"{instance.url}/v0/health", url)
        assert until(lambda: browser.run("window.ended"), "the end of the socket") == 1013


def test_the_printed_lines_show_their_record_in_a_browser(instances: Callable[..., Instance]) -> None:
    instance = instances()
    Api(instance.port).done("PUT", "/v0/topics/orders", {})
    (code,) = snippets("docs/websocket.md", "js")
    with open_browser() as browser:
        browser.visit(f"{instance.url}/v0/health")
        until(lambda: browser.run("location.pathname") == "/v0/health", "the page")
        browser.run("window.shown = []; console.log = (line) => window.shown.push(JSON.parse(line).op); 0")
        browser.run(code.replace("localhost:4000", f"127.0.0.1:{instance.port}") + "; 0")
        until(lambda: "record" in browser.run("window.shown"), "the record")
