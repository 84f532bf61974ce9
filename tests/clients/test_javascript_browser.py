"""The JavaScript client as a page of another origin imports it: streams with the key in a header, a WebSocket, and a store."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.instances import ROOT, Instance, until
from tests.watch.browser import open_browser
from tests.watch.wire import Api

pytestmark = pytest.mark.browser
KEY = "a-secret-of-16-or-more"
PAGE = """
window.watched = []; window.subscribed = []; window.failed = null;
(async () => {
  const { Topics, createTopicStore } = await import("/index.js");
  const topics = new Topics(%(url)s, %(key)s);
  const sum = createTopicStore(topics, "room", { initial: 0, reduce: (state, { data }) => state + data });
  sum.subscribe(() => { window.sum = sum.getSnapshot(); });
  (async () => { for await (const { data } of topics.watch("room")) window.watched.push(data); })();
  const socket = topics.socket();
  (async () => { for await (const { data } of socket.subscribe("room")) window.subscribed.push(data); })();
  await topics.topic("room").append(1);
  await socket.publish("room", 2);
})().catch((error) => { window.failed = String(error); });
0
"""


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The origin of a site with the module, and a page that lists its files."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    folder = str(ROOT / "clients" / "js" / "src")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()


def test_a_page_follows_and_publishes_through_a_restart(instances: Callable[..., Instance]) -> None:
    with served() as origin, open_browser() as browser:
        instance = instances(CORS_ALLOWED_ORIGINS=origin, TOPICS_API_KEYS=f"{KEY}:read+write+admin")
        api = Api(instance.port, KEY)
        api.done("PUT", "/v0/topics/room", {"durability": "fsync"})
        browser.visit(f"{origin}/")
        until(lambda: browser.run("document.readyState") == "complete", "the page")
        browser.run(PAGE % {"url": json.dumps(instance.url), "key": json.dumps(KEY)})
        until(lambda: browser.run("window.failed") or browser.run("window.sum") == 3, "the store")
        assert browser.run("window.failed") is None
        instance.stop()
        instance.start()
        api.append("room", 4)
        until(lambda: browser.run("window.sum") == 7, "the store after the restart")
        for name in ("watched", "subscribed"):
            until(lambda name=name: browser.run(f"window.{name}") == [1, 2, 4], name)  # type: ignore[misc]
