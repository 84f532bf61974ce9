"""Chromium with its driver: pages at several widths, messages in their consoles, and findings of axe."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.instances import Instance, until

AXE = Path(__file__).parent / "axe" / "axe.min.js"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


class Chromium:
    """One window."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver, self.url = driver, url
        self.kept: list[str] = []  # complaints that nobody has asked for yet

    def visit(self, path: str, width: int = 1280) -> None:
        self.resize(width)
        self.driver.get(self.url + path)

    def resize(self, width: int) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "body") -> str:
        """Returns the text of the element, also if the page replaces the element meanwhile. A hidden element shows none."""
        return str(
            self.run(
                "const found = document.querySelector(arguments[0]);"
                "return found?.checkVisibility() ? found.innerText ?? found.textContent : ''",
                selector,
            )
        )

    def shows(self, text: str, selector: str = "body") -> None:
        try:
            until(lambda: text in self.text(selector), f"the page to show {text!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}, which has {self.text(selector)[:2000]!r}") from None

    def complaints(self) -> list[str]:
        """Returns what the page wrote to its console since it was last asked."""
        kept, self.kept = self.kept, []
        return kept + [str(entry["message"]) for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def cut_off(self) -> list[str]:
        """Fields and buttons that reach beyond the card, or the window, that they stand in; not those in a list that scrolls."""
        return list(
            self.run(
                "return [...document.querySelectorAll('#content :is(input, select, textarea, button, a.button)')]"
                ".filter((each) => each.offsetWidth && !each.closest('.scroll, .results, .datetime'))"
                ".filter((each) => each.getBoundingClientRect().right >"
                " each.closest('.card, fieldset, #changelist, #content').getBoundingClientRect().right + 1)"
                ".map((each) => each.outerHTML.slice(0, 100))"
            )
        )

    def violations(self) -> list[str]:
        """Returns the findings of axe against WCAG 2.1 A and AA: the rule, and the elements."""
        self.kept = self.complaints()
        if not self.run("return typeof axe === 'object'"):
            self.run(AXE.read_text())
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'],"
            " resultTypes: ['violations'], selectors: false})"  # it need not describe what passes
            ".then(({violations}) => done(violations.map((each) =>"
            " `${each.id}: ${each.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(' | ')}`)))"
        )
        self.driver.get_log("browser")  # axe tries styles of its own, which the page's policy refuses
        return list(found)


@contextlib.contextmanager
def signed_in(instance: Instance) -> Iterator[Chromium]:
    """A window in which the instance's admin is logged in."""
    options = webdriver.ChromeOptions()
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = str(next(filter(None, map(shutil.which, NAMES))))
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_script_timeout(300)  # axe on a long page, on a busy machine
    try:
        page = Chromium(driver, instance.url)
        page.visit("/admin/login/")
        page.find("#id_username").send_keys("admin")
        page.find("#id_password").send_keys((instance.data / "admin-password").read_text().strip())
        page.find("[type=submit]").click()
        until(lambda: driver.title.startswith("Overview"), "the overview")
        yield page
    finally:
        driver.quit()
