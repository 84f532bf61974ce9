"""/v0/docs in Chromium: "try it" works as it stands, streams too, and the page follows the system's colours."""

from __future__ import annotations

from typing import Any

import pytest

from tests.console.chromium import Chromium
from tests.instances import Instance, until
from tests.watch.wire import Api

pytestmark = [pytest.mark.deep(40), pytest.mark.browser]
STATUS = ".live-responses-table tbody .response-col_status"


@pytest.fixture(scope="module")
def page(chromium: Chromium, server: Instance) -> Chromium:
    """The page of the schema, opened once: to draw it takes ten seconds of a core."""
    Api(server.port).done("DELETE", "/v0/topics/example-orders")
    chromium.visit("/v0/docs")
    chromium.complaints()
    return chromium


def press(chromium: Chromium, operation: str) -> tuple[str, str]:
    """The status and the body of what an operation answers to its example."""
    at = f"#operations-{operation}"
    click(chromium, f"{at} .opblock-summary-control")
    click(chromium, f"{at} .btn.execute")
    status: Any = until(lambda: chromium.text(f"{at} {STATUS}"), f"an answer to {operation}")
    return status, chromium.text(f"{at} .live-responses-table tbody")


def click(chromium: Chromium, selector: str) -> None:
    """As soon as it is there."""
    script = "const found = document.querySelector(arguments[0]); found?.click(); return !!found"
    until(lambda: chromium.run(script, selector), selector)


def test_the_examples_work_as_they_stand(page: Chromium) -> None:
    assert press(page, "topics-put_topic")[0] in ("200", "201")
    assert press(page, "records-append")[0] in ("200", "201")
    status, body = press(page, "records-list_records")
    assert (status, '"order:7"' in body or "19.95" in body) == ("200", True)
    status, body = press(page, "watch-watch")
    assert (status, "wid_" in body) == ("200", True)
    status, body = press(page, "watch-follow_watch")  # of the session that was made just now
    assert (status, "event: record" in body) == ("200", True), body
    assert page.complaints() == []


def test_it_follows_the_systems_colours(page: Chromium) -> None:
    def grounds() -> set[str]:
        script = (
            "return [...document.querySelectorAll(arguments[0])].map((each) => getComputedStyle(each).backgroundColor)"
        )
        return set(page.run(script, "html, body, .swagger-ui"))

    try:
        for scheme, ground in (
            ("dark", "rgb(28, 32, 34)"),
            ("light", "rgb(250, 250, 250)"),
        ):  # it changes while it is open
            chosen = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", chosen)
            until(lambda wanted=ground: wanted in grounds(), f"the page to be {scheme}")
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
