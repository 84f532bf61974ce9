"""PostgreSQL dies: every page of the admin is 503, a download breaks off, and static files are served."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from tests.api.test_faults import without
from tests.instances import until
from tests.project.signing_in import ask, log_in

pytestmark = pytest.mark.deep


# Pages that need no database: Django answers from code and files.
STATIC = ("/static/admin/css/base.css", "/static/console/console.js")


def paths(resolver: URLResolver, before: str = "") -> Iterator[str]:
    """Each address of the admin that Django knows, with something in each of its places."""
    for each in resolver.url_patterns:
        route = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from paths(each, route)
        elif isinstance(each, URLPattern):
            plain = re.sub(r"<int:\w+>", "1", route)
            plain = re.sub(r"<[^>]*>", "x", plain)
            yield "/" + re.sub(r"\(\?P<\w+>([^|)]*)[^)]*\)|\(\?P<[^)]*\)|[\^$]", lambda m: m[1] or "", plain)


def admin_paths() -> list[str]:
    return sorted({path for path in paths(get_resolver()) if path.startswith("/admin/")})


def test_every_page_is_503_while_postgresql_is_away(instances) -> None:
    server = instances()
    answer = log_in(server, (server.data / "admin-password").read_text().strip())
    cookie = re.findall(r"sessionid=[^;,]+", answer.headers["set-cookie"])[0]
    login = ask(server, "GET", "/admin/login/")
    token = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', login.body)[0]
    csrf = login.headers["set-cookie"].partition(";")[0]
    known = admin_paths()
    assert len(known) > 60
    postmaster = int((server.data / "postgresql" / "postmaster.pid").read_text().split()[0])
    seen: dict[str, int] = {}
    with without(server, postmaster, signal.SIGQUIT):
        until(lambda: server.get("/v0/ready")[0] == 503, "PostgreSQL to be gone")
        for path in [*known, "/admin/stream/overview/3h", "/admin/tail/?topic=a", "/admin/download/a.ndjson"]:
            answer = ask(server, "GET", path, Cookie=cookie)
            seen[path] = answer.status
            if answer.status == 503:
                assert answer.headers["retry-after"] == "1", path
                assert "PostgreSQL is not reachable" in answer.body, path
        form = {"Content_Type": "application/x-www-form-urlencoded", "Cookie": csrf}
        posted = ask(server, "POST", "/admin/login/", f"csrfmiddlewaretoken={token}&username=admin&password=x", **form)
        assert (posted.status, posted.headers["retry-after"]) == (503, "1")
        for path in STATIC:
            assert ask(server, "GET", path).status == 200, path
    assert "Traceback" not in server.output
    assert set(seen.values()) <= {503}, {p: s for p, s in seen.items() if s != 503}
