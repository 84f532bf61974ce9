"""A browser at the login page of a running instance."""

from __future__ import annotations

import http.client
import re
from typing import NamedTuple
from urllib.parse import urlencode

from tests.deadlines import DEADLINE
from tests.instances import Instance


class Page(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str


def ask(instance: Instance, method: str, path: str, body: str = "", **headers: str) -> Page:
    """One request; underscores in the names of headers stand for dashes."""
    client = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=DEADLINE)
    try:
        client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = client.getresponse()
        return Page(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode())
    finally:
        client.close()


def log_in(instance: Instance, password: str, user: str = "admin", **headers: str) -> Page:
    """Logs in as this user. Returns the answer, with the status 302 if the password is right."""
    page = ask(instance, "GET", "/admin/login/", **headers)
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.body)
    if token is None:
        return page
    form = {"username": user, "password": password, "csrfmiddlewaretoken": token[1], "next": "/admin/"}
    cookie = page.headers["set-cookie"].partition(";")[0]
    headers = {"Content_Type": "application/x-www-form-urlencoded", "Cookie": cookie, **headers}
    return ask(instance, "POST", "/admin/login/", urlencode(form), **headers)
