"""The console in Chromium: every page draws, writes no error, fits its window and passes axe; what is live changes."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from base.clock import now_ms
from tests.api.test_faults import without
from tests.console.chromium import Chromium, signed_in
from tests.instances import Instance, until
from tests.watch.wire import Api, new_name

pytestmark = [pytest.mark.deep(173), pytest.mark.browser]
WIDTHS = (390, 1280, 2560)
LONG = "long." + "x" * 250  # the longest name that a topic may have
CLICK = "new MouseEvent('click', {bubbles: true, cancelable: true})"
EVIL = "<script>document.title='evil'</script><b>\"'\u202e" + "y" * 4000


@pytest.fixture(scope="module")
def api(server: Instance) -> Api:
    return Api(server.port)


@pytest.fixture(scope="module")
def topic(server: Instance, api: Api) -> str:
    """A topic with records of all kinds, routers of which one is blocked, a cursor, and a neighbour with a long name."""
    name = new_name("seen")
    api.append(name, *range(120))
    api.done("POST", f"/v0/topics/{name}", {"records": [{"data": {EVIL: EVIL}, "tag": EVIL[:60], "node": EVIL[:30]}]})
    api.done("PUT", f"/v0/topics/{name}-full", {"cap_records": 2, "discard": "reject"})
    for dest, more in ((f"{name}-full", {}), (LONG, {"allow_fan_in": True}), (f"{name}-rest", {"paused": True})):
        config = {"source": name, "dest": dest, "from": "earliest", **more}
        api.done("PUT", f"/v0/routers/{name}-{dest[-4:]}", config)
    api.done("PUT", f"/v0/topics/{name}/cursors/billing", {"seq": 5})
    fill_queue(api, f"{name}-jobs")
    hook = {"url": f"https://localhost:1/{'x' * 300}", "topics": [name, LONG, "e.*"]}
    api.done("PUT", f"/v0/webhooks/{name}", hook)
    api.done("POST", f"/v0/webhooks/{name}/test", {})
    until(lambda: api.done("GET", f"/v0/routers/{name}-full")["state"] == "blocked", "the router to be blocked")
    return name


def fill_queue(api: Api, name: str) -> None:
    """Creates a queue with ready jobs, a job in flight, a dead letter and schedules."""
    api.done("PUT", f"/v0/topics/{name}", {"type": "queue", "max_deliveries": 1, "dead_letter": f"{name}-dead"})
    api.append(name, *range(5))
    for node in ("worker-1", "w" * 120):
        job = api.done("POST", f"/v0/topics/{name}/claim", {"node": node, "lease_ms": 3_600_000})["claimed"][0]
        nack = {"node": node, "seqs": [job["$seq"]], "error": EVIL[:500]}
        if node == "worker-1":
            api.done("POST", f"/v0/topics/{name}/nack", nack)
    for schedule in ("nightly", LONG):
        config = {"cron": "0 3 * * *", "timezone": "America/Argentina/Buenos_Aires", "data": EVIL}
        api.done("PUT", f"/v0/topics/{name}/schedules/{schedule}", config)


@pytest.mark.parametrize("path", ["/admin/", "/admin/live/?topic=t"])
def test_an_open_page_says_that_it_is_old(instances: Any, path: str) -> None:
    """PostgreSQL dies, or the server freezes: the stream is still open. Then the web process dies: the next stream is refused."""
    server = instances()
    Api(server.port).append("t", 1)
    postmaster = int((server.data / "postgresql" / "postmaster.pid").read_text().split()[0])
    with signed_in(server) as page:
        page.visit(path)
        page.shows("live", ".live-mark")
        with without(server, postmaster, signal.SIGQUIT):
            page.shows("not updated, as of ", ".live-mark")
            os.kill(max(server.pids("topics_project.web")), signal.SIGKILL)
            page.shows("not connected, as of ", ".live-mark")  # its next streams are refused with 503
        until(lambda: page.text(".live-mark").startswith("live"), "the page to be live again")
        frozen = server.pids()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            page.shows("not updated, as of ", ".live-mark")
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)


def pages(topic: str) -> list[str]:
    return [
        "/",
        "/admin/",
        *(
            f"/admin/list/{kind}/"
            for kind in ("topics", "routers", "groups", "queues", "readers", "webhooks", "subscribers")
        ),
        f"/admin/webhook/{topic}/",
        f"/admin/webhook/{topic}/replay/",
        f"/admin/webhook/{topic}/delete/",
        "/admin/?wall=1",
        f"/admin/topic/{topic}/",
        f"/admin/topic/{LONG}/records/",
        f"/admin/topic/{topic}/records/",
        f"/admin/topic/{topic}/records/121/",
        f"/admin/topic/{topic}/append/",
        f"/admin/topic/{topic}-jobs/queue/",
        f"/admin/topic/{topic}-jobs/schedules/",
        f"/admin/topic/{topic}-jobs/schedules/nightly/",
        f"/admin/router/{topic}-full/",
        f"/admin/router/{topic}-full/move/",
        f"/admin/router/{topic}-full/pause/",
        f"/admin/graph/?focus={topic}",
        f"/admin/graph/?focus={topic}&at={now_ms() - 600_000}",
        f"/admin/live/?topic={topic}",
        "/admin/limits/",
        "/admin/tasks/",
        "/admin/topics/topic/",
        "/admin/topics/topic/?q=there-is-none-like-that",
        "/admin/topics/topic/add/",
        "/admin/routers/router/",
        "/admin/routers/router/add/",
        "/admin/topics/cursor/",
        "/admin/topics/cursor/add/",
        "/admin/topics/apikey/",
        "/admin/topics/apikey/add/",
        "/admin/topics/auditentry/",
        "/admin/push/subscriber/",
        "/admin/push/delivery/",
        "/admin/push/bustopic/",
        "/admin/pipeline/run/",
        "/admin/pipeline/schedule/",
        "/admin/pipeline/schedule/add/",
        "/admin/pipeline/rollup/",
        "/admin/pipeline/delay/",
        "/admin/password_change/",
        "/admin/all/",
    ]


def test_every_page_draws_fits_and_passes_axe(chromium: Chromium, topic: str, api: Api) -> None:
    chromium.complaints()
    wrong: list[str] = []
    for page in pages(topic):
        chromium.visit(page, WIDTHS[0])
        for width in WIDTHS:
            chromium.resize(width)
            if chromium.overflow() > 0:
                wrong.append(f"{page} at {width}: {chromium.overflow()} px too wide")
            wrong += [f"{page} at {width}: cut off is {each}" for each in chromium.cut_off()]
        wrong += [f"{page}: {each}" for each in chromium.violations()]
        assert "evil" not in chromium.driver.title
        wrong += [f"{page}: {each}" for each in chromium.complaints()]
    assert not wrong, "\n".join(wrong)


def test_the_names_of_all_pages_are_in_sight(chromium: Chromium) -> None:
    """On a phone they are behind a button."""
    for width in WIDTHS:
        chromium.visit("/admin/topics/auditentry/", width)
        if width == WIDTHS[0]:
            assert "Limits" not in chromium.text("#container")
            chromium.find(".menu").click()
        hidden = chromium.run(
            "return [...document.querySelectorAll('.nav a')].filter((each) => {"
            " const { left, right, top, bottom } = each.getBoundingClientRect();"
            " return !each.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2)); })"
            ".map((each) => each.innerText)"
        )
        assert hidden == [], width
    chromium.resize(WIDTHS[0])
    assert chromium.overflow() <= 0


def test_lists_keep_states_and_numbers_whole(chromium: Chromium, topic: str) -> None:
    for width in WIDTHS:
        chromium.visit(f"/admin/routers/router/?q={topic}", width)
        for column in ("state_now", "lag", "behind", "value"):  # of a choice, as the guarantee is
            lines = chromium.run(
                "return [...document.querySelectorAll(arguments[0])].map((cell) => {"
                " const range = document.createRange(); range.selectNodeContents(cell);"
                " return new Set([...range.getClientRects()].map((line) => Math.round(line.top / 12))).size; })",
                f"#result_list td.field-{column}",
            )
            assert len(lines) == 3
            assert max(lines) <= (2 if column == "state_now" else 1), (width, column)  # a state is a box and its text
        first = chromium.run(
            "const cell = document.querySelector('#result_list tbody .field-named').getBoundingClientRect();"
            "return [cell.left, cell.right]"
        )
        assert first[0] >= 0
        assert first[1] < width * 0.75, width  # room for what the list says of it


def test_dark_is_readable_too(chromium: Chromium, topic: str) -> None:
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        for page in ("/", "/admin/", f"/admin/router/{topic}-full/", f"/admin/graph/?focus={topic}"):
            chromium.visit(page)
            assert chromium.violations() == [], page
    finally:
        chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_trim_page_passes_axe(chromium: Chromium, server: Instance, topic: str) -> None:
    with server.connect() as database:
        (id,) = database.execute("SELECT id FROM topics_topic WHERE name = %s", [topic]).fetchone()
    chromium.visit(f"/admin/topics/topic/{id}/trim/")
    assert chromium.violations() == []


def test_a_page_changes_when_data_does_and_keeps_what_is_chosen(chromium: Chromium, api: Api) -> None:
    name = new_name()
    api.append(name, 1)
    chromium.visit(f"/admin/topic/{name}/")
    chromium.shows("live", ".live-mark")
    chromium.run("window.figures = document.querySelector('.figures')")
    api.append(name, 2, 3)
    until(lambda: chromium.text(".figures dd") == "3", "the head to change")
    assert chromium.run("return document.querySelector('.figures') === window.figures")  # mended, not replaced
    api.done("PUT", f"/v0/topics/{name}/cursors/reader-one", {"seq": 1})
    chromium.shows("reader-one")


SAMPLES = """
INSERT INTO console_sample (kind, object_id, ts, head_seq, reads, forwarded, count, bytes, lag, oldest_ms, errors)
SELECT kind, CASE kind WHEN 'all' THEN 0 ELSE id END, (floor(extract(epoch FROM now()) / 60) - ago) * 60000, 9 - ago,
       0, 0, 0, 0, 0, 0, 0
  FROM topics_topic, unnest(ARRAY['all', 'topic']) kind, generate_series(1, 4) ago WHERE name = %s
    ON CONFLICT DO NOTHING
"""


def test_a_cross_shows_the_values_of_all_charts_at_one_time(chromium: Chromium, server: Instance, topic: str) -> None:
    with server.connect() as connection:
        connection.execute(SAMPLES, [topic])
    chromium.visit(f"/admin/topic/{topic}/?range=15m@1h")
    chromium.shows("live", ".live-mark")
    move = """
    const plot = document.querySelector('.chart .plot'), clientX = plot.getBoundingClientRect().right;
    plot.firstElementChild.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX}));
    return [...document.querySelectorAll('.chart output')].map((each) => each.textContent)"""
    told = chromium.run(move)
    assert len(told) > 1
    assert all("1h ago" in each for each in told)
    assert {each[:11] for each in told} == {told[0][:11]}  # one time
    assert chromium.violations() == []
    chromium.run("document.body.dispatchEvent(new PointerEvent('pointermove', {bubbles: true}))")
    assert chromium.run("return document.querySelector('.chart output').textContent") == ""


def test_the_graph_changes_without_a_jump(chromium: Chromium, api: Api) -> None:
    name = new_name()
    api.append(name, 1)
    api.done("PUT", f"/v0/routers/{name}-r", {"source": name, "dest": f"{name}-to", "from": "earliest"})
    chromium.visit(f"/admin/graph/?focus={name}")
    chromium.shows("live", ".live-mark")
    look = """
    return [document.getElementById('network').clientWidth, document.querySelector('.graph').scrollTop]"""
    chromium.run("document.querySelector('.graph').style.height = '60px'")
    before = chromium.run(look)
    chromium.find("[data-zoom='1.4']").click()
    chromium.run("document.querySelector('.graph').scrollTop = 20")
    zoomed = chromium.run(look)
    assert zoomed[0] > before[0]
    api.append(name, 2, 3, 4)
    until(lambda: "head 4" in chromium.text("#network"), "the number to change")
    api.done("PUT", f"/v0/routers/{name}-r", {"source": name, "dest": f"{name}-to", "paused": True})
    until(lambda: chromium.all(".edge.paused"), "the edge to be drawn as paused")
    api.done("PUT", f"/v0/routers/{name}-s", {"source": name, "dest": f"{name}-too"})
    until(lambda: f"{name}-too" in chromium.text("#network"), "the new topic to be drawn")
    assert chromium.run(look)[1] == zoomed[1] == 20
    assert chromium.complaints() == []


def test_a_router_in_trouble_is_named_and_found_in_the_picture(chromium: Chromium, api: Api) -> None:
    name = new_name()
    api.done("PUT", f"/v0/topics/{name}-full", {"cap_records": 1, "discard": "reject"})
    for place in range(30):
        config = {"source": name, "dest": f"{name}-{place:02}", "from": "earliest"}
        api.done("PUT", f"/v0/routers/{name}-{place:02}", config)
    api.done("PUT", f"/v0/routers/{name}-z", {"source": name, "dest": f"{name}-full", "from": "earliest"})
    api.append(name, 1, 2, 3)
    until(lambda: api.done("GET", f"/v0/routers/{name}-z")["state"] == "blocked", "the router to be blocked")
    chromium.visit(f"/admin/graph/?focus={name}")
    chromium.shows(f"{name}-z is blocked", ".troubles")
    small = """
    const texts = [...document.querySelectorAll('#network text')].filter((each) => each.textContent.trim());
    return Math.min(...texts.map((each) => each.getBoundingClientRect().height))"""
    assert chromium.run(small) >= 11
    chromium.run("document.querySelector('.graph').style.height = '200px'")
    chromium.find(".troubles button").click()
    seen = """
    const [frame, node] = ['.graph', '.node.bad'].map((each) => document.querySelector(each).getBoundingClientRect());
    return node.top >= frame.top && node.bottom <= frame.bottom"""
    assert chromium.run(seen)
    chromium.find("[data-only-trouble]").click()
    assert chromium.run("return getComputedStyle(document.querySelector('.node:not(.bad, .unsure)')).opacity") == "0.2"
    assert chromium.overflow() == 0
    assert chromium.complaints() == []


def test_what_is_chosen_in_the_graph_has_a_panel_and_its_ways_lit(chromium: Chromium, api: Api) -> None:
    """By a click, by a search from the keyboard, and by the address. Escape ends it."""
    name = new_name()
    for source, dest in (("a", "b"), ("b", "c"), ("other", "c")):
        config = {"source": f"{name}.{source}", "dest": f"{name}.{dest}", "allow_fan_in": True}
        api.done("PUT", f"/v0/routers/{name}.{source}{dest}", config)
    chromium.visit(f"/admin/graph/?prefix={name}.")
    chromium.shows("live", ".live-mark")
    chromium.run(f"document.querySelector('#network a[data-name=\"{name}.ab\"]').dispatchEvent({CLICK})")
    chromium.shows("Skip or move", ".panel")
    assert f"{name}.a to {name}.b" in chromium.text(".panel")
    lit = "return [...document.querySelectorAll('#network .node.lit')].map((each) => each.querySelector('text').textContent)"
    assert {each.removeprefix(f"{name}.") for each in chromium.run(lit)} == {"a", "b", "c"}
    address = str(chromium.run("return location.hash"))
    assert address
    chromium.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    until(lambda: chromium.text(".panel") == "", "the panel to close")
    assert chromium.run("return location.hash") == ""
    chromium.driver.switch_to.active_element.send_keys("/")
    chromium.driver.switch_to.active_element.send_keys(f"{name}.other", Keys.ENTER)
    chromium.shows("Append a record", ".panel")
    assert chromium.violations() == []
    chromium.visit(f"/admin/graph/?prefix={name}.{address}")
    chromium.shows("Skip or move", ".panel")
    assert chromium.run("return document.querySelector('.minimap').hasAttribute('hidden')")
    chromium.run(
        "document.querySelector('.graph').style.height = '60px'; document.querySelector('[data-zoom=\"1.4\"]').click()"
    )
    until(lambda: chromium.all(".minimap:not([hidden])"), "the minimap of a picture that is larger than its frame")
    assert chromium.complaints() == []


def test_a_deep_graph_begins_where_it_can_be_read(chromium: Chromium, api: Api) -> None:
    name = new_name()
    for place in range(24):
        config = {"source": f"{name}.{place:02}", "dest": f"{name}.{place + 1:02}"}
        api.done("PUT", f"/v0/routers/{name}.{place:02}", config)
    chromium.visit(f"/admin/graph/?prefix={name}.")
    tall = "return document.querySelector('#network .node rect').getBoundingClientRect().height"
    assert chromium.run(tall) > 15
    assert chromium.find("#network .node text").is_displayed()
    chromium.find("[data-zoom='0']").click()
    assert chromium.run(tall) < 15
    assert chromium.complaints() == []


def test_records_roll_in_and_wait_while_paused(chromium: Chromium, api: Api) -> None:
    name = new_name()
    api.append(name, "before")
    chromium.visit(f"/admin/live/?topic={name}")
    chromium.shows("0 behind", "#told")
    api.done("POST", f"/v0/topics/{name}", {"records": [{"data": EVIL[:200], "tag": "<i>", "node": "<u>"}]})
    chromium.shows("#2", "#log")
    assert "<i> by <u>" in chromium.text("#log")
    assert "before" not in chromium.text("#log")
    assert chromium.all("#log i, #log u, #log script") == []
    chromium.find("#hold").click()
    api.append(name, "held")
    chromium.shows("1 held back", "#told")
    assert "held" not in chromium.text("#log")
    chromium.find("#hold").click()
    chromium.shows("#3", "#log")


def test_records_are_shown_as_they_were_sent_also_after_a_way_back(chromium: Chromium, api: Api) -> None:
    name = new_name()
    api.append(name, "before")
    chromium.visit(f"/admin/live/?topic={name}")
    chromium.shows("0 behind", "#told")
    data = {"10": [{"data": '},"data":{'}], "2": 9007199254740993, "data": {"data": [-0.0, 1.0]}}
    meta = {"data": {"data": 1}}
    api.done("POST", f"/v0/topics/{name}", {"records": [{"data": data, "meta": meta}, {"data": "next"}]})
    chromium.shows("#3", "#log")
    shown = chromium.run(
        "return [...document.querySelectorAll('#log p')].map((row) => row.lastElementChild.textContent)"
    )
    assert [json.loads(each) for each in shown] == [data, "next"]
    assert '"2"' in shown[0].partition('"10"')[2]
    # The browser kept the page, and a person comes back to it.
    chromium.run("dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}))")
    chromium.run("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
    api.append(name, "later")
    chromium.shows("later", "#log")


def test_a_search_waits_for_the_end_of_a_name(chromium: Chromium, api: Api) -> None:
    name = new_name("found")
    for each in (name, f"{name}-audit"):
        api.append(each, 1)
    listed = "return [...document.querySelectorAll('#find-topics option')].map((each) => each.value)"
    chromium.visit("/admin/topics/topic/")
    chromium.find("body").send_keys("/")
    field = chromium.driver.switch_to.active_element
    field.send_keys(name[:-1])
    until(lambda: name in chromium.run(listed), "the name")
    field.send_keys(name[-1])
    field.send_keys("-audit")
    until(lambda: chromium.run(listed) == [f"{name}-audit"], "the longer name alone")
    assert field.get_attribute("value") == f"{name}-audit"
    # As a browser tells that an option was chosen.
    chromium.run("arguments[0].dispatchEvent(new Event('input'))", field)
    until(lambda: chromium.driver.current_url.endswith(f"/admin/topic/{name}-audit/"), "the topic's page")


def test_a_graph_without_a_login_shows_no_login_page_in_its_panel(server: Instance, api: Api) -> None:
    name = new_name("gone")
    api.append(name, 1)
    api.done("PUT", f"/v0/routers/{name}-r", {"source": name, "dest": f"{name}-to"})
    with signed_in(server) as page:
        page.visit(f"/admin/graph/?focus={name}")
        page.shows("live", ".live-mark")
        page.driver.delete_all_cookies()
        page.run("return choose(document.querySelector('#network a[data-panel] > *').id)")
        assert page.run("return document.querySelector('.panel').hidden")


def test_keys_search_and_walk(chromium: Chromium, api: Api) -> None:
    name = new_name("keyed")
    api.append(name, 1, 2)
    chromium.visit("/admin/topics/topic/")
    chromium.find("body").send_keys("/")
    field = chromium.driver.switch_to.active_element
    assert field.get_attribute("name") == "q"
    field.send_keys(name[:12])
    until(lambda: name in str(chromium.run("return document.getElementById('find-topics').innerHTML")), "the name")
    field.send_keys(Keys.ENTER)
    until(lambda: f"q={name[:12]}" in chromium.driver.current_url, "the search")
    chromium.find("body").send_keys("j")
    chromium.find("body").send_keys(Keys.ENTER)
    until(lambda: chromium.driver.current_url.endswith(f"/admin/topic/{name}/"), "the topic's page")
    chromium.visit(f"/admin/topic/{name}/records/")
    for key, chosen in (("j", "2"), ("j", "1"), ("k", "2")):
        chromium.find("body").send_keys(key)
        assert chromium.text("tr[aria-selected=true] td") == chosen


def test_a_blocked_router_is_helped_by_hand(chromium: Chromium, topic: str) -> None:
    chromium.visit(f"/admin/router/{topic}-full/")
    assert "blocked" in chromium.text(".need")
    chromium.visit(f"/admin/router/{topic}-full/move/")
    chromium.find("#move button.primary").click()
    chromium.shows("This router will not forward")
    chromium.find("#move button.danger").click()
    # The page before says nearly the same: who took that for the answer would leave while the form is under way.
    chromium.shows("-full continues after seq 3.")


def test_a_form_refuses_what_the_api_refuses(chromium: Chromium, api: Api, topic: str) -> None:
    chromium.visit(f"/admin/topic/{topic}/append/")
    field = chromium.find("#id_data")
    field.clear()
    field.send_keys("{")
    chromium.find("#append button").click()
    chromium.shows("invalid JSON in data", ".errorlist")
    assert chromium.violations() == []


def test_without_scripts_the_pages_say_the_same(chromium: Chromium, topic: str) -> None:
    chromium.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        for page, told in (
            ("/admin/", f"Router {topic}-full is blocked"),
            (f"/admin/graph/?focus={topic}", "In words"),
            (f"/admin/live/?topic={topic}", "Without JavaScript, see"),
        ):
            chromium.driver.get(chromium.url + page)
            assert told in chromium.driver.page_source
        chromium.driver.get(chromium.url + f"/admin/graph/?focus={topic}")
        assert "head 121" in chromium.find("#network").get_attribute("innerHTML")
    finally:
        chromium.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
