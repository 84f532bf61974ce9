"""An operator of the bus, who works in the admin."""

from __future__ import annotations

import re
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar

from tests.admin.pages import rows
from tests.deadlines import DEADLINE
from tests.instances import Instance
from tests.push.bus import Client


class Desk:
    """A logged-in operator."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        password = (instance.data / "admin-password").read_text().strip()
        self.post("/admin/login/", username="admin", password=password, next="/admin/")

    def get(self, path: str) -> str:
        with self.opener.open(self.instance.url + path, timeout=DEADLINE) as answer:
            return str(answer.read().decode())

    def post(self, path: str, **fields: str) -> str:
        """The page that a form leads to."""
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.get(path))
        assert token is not None
        body = urllib.parse.urlencode({"csrfmiddlewaretoken": token[1], **fields}).encode()
        request = urllib.request.Request(self.instance.url + path, body, {"Referer": self.instance.url + path})
        with self.opener.open(request, timeout=DEADLINE) as answer:
            return str(answer.read().decode())

    def subscriber(self, client: Client) -> int:
        """The id of a client's subscription."""
        with self.instance.connect() as connection:
            found = connection.execute("SELECT id FROM push_busclient WHERE token = %s", [client.token]).fetchone()
        assert found is not None
        return int(found[0])

    def row(self, client: Client) -> list[str]:
        (found,) = rows(self.get(f"/admin/push/subscriber/?q={client.name}"))
        return found
