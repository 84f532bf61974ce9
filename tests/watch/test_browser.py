"""The lines of docs/watch.md in a headless Chromium, with the server killed and started under them."""

import re
import signal
from pathlib import Path

import pytest

from tests.instances import Instance, until
from tests.watch.browser import Browser, open_browser
from tests.watch.wire import Api

pytestmark = [pytest.mark.deep, pytest.mark.browser]
PAGE = Path(__file__).parent.parent.parent / "docs" / "watch.md"


def script() -> str:
    found = re.search(r"```js\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


def shown(browser: Browser) -> list[tuple[str, int]]:
    return [tuple(entry) for entry in browser.run("window.shown")]


def test_the_page_follows_two_topics(instances) -> None:
    instance: Instance = instances()
    api = Api(instance.port)
    # A crash of PostgreSQL may take back the end of a topic with less.
    for topic in ("orders", "payments"):
        api.done("PUT", f"/v0/topics/{topic}", {"durability": "fsync"})
    expected: list[tuple[str, int]] = []

    def more(count: int) -> None:
        for topic in ("orders", "payments"):
            last = api.append(topic, *range(count))
            expected.extend((topic, seq) for seq in range(last - count + 1, last + 1))

    def all_there() -> bool:
        return len(shown(browser)) >= len(expected)

    more(3)
    with open_browser() as browser:
        browser.visit(f"{instance.url}/v0/health")
        until(lambda: browser.run("location.pathname") == "/v0/health", "the page")
        lines = script()
        browser.run("window.shown = []; console.log = (topic, seq) => window.shown.push([topic, seq]); 0")
        browser.run(lines + "; 0")
        until(all_there, "what was there before")
        more(2)
        until(all_there, "what was appended")
        instance.kill()
        instance.start()
        more(2)
        until(all_there, "what came after a kill")
        instance.stop(signal.SIGTERM)
        instance.start()
        more(2)
        until(all_there, "what came after a shutdown")
        got = shown(browser)
    assert sorted(got) == sorted(expected)
    assert len(set(got)) == len(got)
    for topic in ("orders", "payments"):
        seqs = [seq for name, seq in got if name == topic]
        assert seqs == sorted(seqs)


def test_a_refusal_is_told_once(server: Instance) -> None:
    with open_browser() as browser:
        browser.visit(f"{server.url}/v0/health")
        until(lambda: browser.run("location.pathname") == "/v0/health", "the page")
        browser.run("window.told = []; console.error = (why) => window.told.push(why.message); 0")
        browser.run(script().replace("{ orders:", "{ 'no name':") + "; 0")
        until(lambda: browser.run("window.told"), "the refusal")
        asked = browser.run("performance.getEntriesByType('resource').map((each) => new URL(each.name).pathname)")
        assert [path for path in asked if path.startswith("/v0/")] == ["/v0/watch"]
        assert len(browser.run("window.told")) == 1
