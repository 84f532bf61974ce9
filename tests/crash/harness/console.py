"""An operator: signs in to the console and reads its pages in turn, during all faults."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import urllib3

from tests.crash.harness.client import DEADLINE, Hung, Unanswered
from tests.crash.harness.load import Hand, Stage
from tests.instances import Instance

PAGES = (
    "",
    "topics/topic/",
    "topic/fsync/",
    "topic/fsync/records/",
    "router/chain.1/",
    "graph/",
    "live/",
    "tasks/",
    "topics/auditentry/",
    "push/subscriber/",
    "push/delivery/",
)


class Operator(Hand):
    """Every page is 200, or 503 while the store is away. A page that sends to the login means: sign in again."""

    pause = 0.5

    def __init__(self, stage: Stage, instance: Instance) -> None:
        super().__init__(stage, "operator")
        self.instance, self.cookies, self.turn = instance, dict[str, str](), 0
        self.pool = urllib3.PoolManager(timeout=DEADLINE, retries=False)

    def step(self) -> None:
        if "sessionid" not in self.cookies:
            self.sign_in()
        self.turn += 1
        path = f"/admin/{PAGES[self.turn % len(PAGES)]}"
        status, body = self.look("GET", path)
        if status == 302:
            self.cookies.clear()
        elif status != 200:
            self.expect(status, path, body)

    def sign_in(self) -> None:
        status, body = self.look("GET", "/admin/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', body)
        if status != 200 or token is None:
            return self.expect(status, "/admin/login/", body)
        password = (self.instance.data / "admin-password").read_text().strip()
        form = {"username": "admin", "password": password, "csrfmiddlewaretoken": token[1]}
        status, body = self.look("POST", "/admin/login/", urlencode(form))
        if status != 302:
            self.expect(status, "/admin/login/", body)
        return None

    def expect(self, status: int, path: str, body: str) -> None:
        """Raises Unanswered where the store is away. Any other answer is trouble."""
        if status != 503:
            self.evidence.trouble(self.name, f"{path}: {status} {body[:300]!r}")
        raise Unanswered(f"{path}: {status}")

    def look(self, method: str, path: str, form: str | None = None) -> tuple[int, str]:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            answer = self.pool.request(method, self.instance.url + path, body=form, headers=headers, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            hung = isinstance(error, urllib3.exceptions.ReadTimeoutError)
            raise (Hung if hung else Unanswered)(f"{method} {path}: {error!r}") from error
        for cookie in answer.headers.getlist("set-cookie"):
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer.status, answer.data.decode()
