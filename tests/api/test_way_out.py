"""A refusal says what to do: a suggestion, the allowed values, or the step to do first."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.db import NotSupportedError

from base.errors import NotReady
from store.database import check_version, translated
from tests.api.clients import ApiClient, HttpClient
from tests.deadlines import DEADLINE
from tests.instances import ROOT, free_port, until
from tests.migrations.databases import database, migrate

pytestmark = pytest.mark.deep


def message(live: ApiClient, method: str, path: str, body: object = None, status: int = 400) -> str:
    refused = live.call(method, path, body)
    assert (refused.status, bool(refused.code)) == (status, True)
    return str(refused.json["error"]["message"])


@pytest.mark.parametrize("body", [b'{"records":[{"data":1}', b'{"records":[{"da', b"{", b'{"records": tru'])
def test_truncated_json_is_told_with_the_byte(api: ApiClient, name: str, body: bytes) -> None:
    refused = api.post(f"/v0/topics/{name}", body)
    assert (refused.status, refused.code, refused.detail) == (400, "invalid_request", {"byte": len(body)})
    assert f"at byte {len(body)}" in refused.json["error"]["message"]


WORDS = [
    ("PUT", "/v0/topics/{}", {"discard": "newest"}, ("discard", "old, reject", "'newest'")),
    ("PUT", "/v0/topics/{}", {"durability": ""}, ("durability", "disk, ephemeral, fsync, memory", "''")),
    ("PUT", "/v0/topics/{}", {"discard": "don't"}, ("discard", "old, reject", '"don\'t"')),
    ("PUT", "/v0/routers/{}", {"source": "a", "dest": "b", "from": "now"}, ("from", "earliest, head", "'now'")),
    ("POST", "/v0/topics/{}/diff", {"match": ["tag", "Like", "x"]}, ("match[1]", "Eq, Glob", "'Like'")),
    ("POST", "/v0/watch", {"topics": {"a": {"match": ["x", "Eq", "x"]}}}, ("topics[...].match[0]", "tag", "'x'")),
    ("PUT", "/v0/topics/{}/cursors/c", {"at": "tail"}, ("at", "earliest, head", "'tail'")),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "told"), WORDS)
def test_a_wrong_word_is_told_the_right_ones(
    api: ApiClient, name: str, method: str, path: str, body: object, told: tuple[str, str, str]
) -> None:
    place, words, word = told
    expected = f"invalid value in the body at {place}: expected one of {words}, not {word}"
    assert message(api, method, path.format(name), body) == expected


VALUES = [
    ("PUT", "/v0/topics/{}", {"ttl_ms": -1}, "invalid value in the body at ttl_ms: expected a whole number of at least 0"),
    ("PUT", "/v0/topics/{}", {"ttl_ms": "x"}, "invalid value in the body at ttl_ms: expected a whole number, not a string"),
    ("GET", "/v0/topics/{}?touch=maybe", None, "invalid value in the query at touch: expected true or false, not a string"),
    ("POST", "/v0/topics/{}", [], "invalid value in the body: expected an object, not an array"),
    ("POST", "/v0/topics/{}", {}, "missing field 'records' in the body"),
    ("POST", "/v0/topics/{}", {"records": [{"tag": "a"}]}, "missing field 'data' in the body at records[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "told"), VALUES)
def test_a_wrong_value_is_told_what_was_expected(
    api: ApiClient, name: str, method: str, path: str, body: object, told: str
) -> None:
    assert message(api, method, path.format(name), body) == told


METHODS = [
    ("GET", "/v0/topics/{}/diff", "send POST, or GET /v0/topics/:topic/records takes the same fields as a query"),
    ("GET", "/v0/topics/{}/delete", "send POST, or DELETE /v0/topics/:topic deletes the topic itself"),
    ("POST", "/v0/topics", "send GET, or PUT /v0/topics/:topic creates a topic"),
    ("PATCH", "/v0/topics/{}", "send PUT or GET or DELETE or POST"),
    ("GET", "/v0/watch", "send POST, or GET /v0/watch/:wid, the stream_url of the answer, is the stream"),
]


@pytest.mark.parametrize(("method", "path", "told"), METHODS)
def test_another_method_is_told_which_there_are(api: ApiClient, name: str, method: str, path: str, told: str) -> None:
    assert message(api, method, path.format(name), status=405) == f"this path does not take {method}: {told}"


PATHS = [
    ("/v0/topics/orders/", "leave out the slash at the end"),
    ("/v0/topics/orders/diff/", "leave out the slash at the end"),
    ("/v0/topic/orders", "did you mean /v0/topics/orders?"),
    ("/v0/topics/orders/dif", "did you mean /v0/topics/orders/diff?"),
    ("/v0/topics/orders/event", "did you mean /v0/topics/orders/events?"),
    ("/v0/router/a%3Eb", "did you mean /v0/routers/a>b?"),
    ("/v0/topics/a/b", "'a/b' contains '/', and a name cannot"),
    ("/v0/topics/a%2Fdelete", "it contains an encoded slash (%2F), and a name cannot contain '/'"),
    ("/v0%2ftopics/a/delete", "it contains an encoded slash (%2F), and a name cannot contain '/'"),
    ("/v0/routers/a/b/c", "'a/b/c' contains '/', and a name cannot"),
]


@pytest.mark.parametrize(("path", "told"), PATHS)
def test_a_path_that_is_nearly_right_is_told_the_right_one(api: ApiClient, path: str, told: str) -> None:
    assert message(api, "POST", path, {}, 404) == f"unknown path: {told}"


@pytest.mark.parametrize("path", ["/v0", "/v0/", "/v0/nonsense", "/v0/" + "topics/" * 200])
def test_a_path_like_no_other_is_told_nothing_more(api: ApiClient, path: str) -> None:
    assert message(api, "GET", path, None, 404) == "unknown path"


def test_conflicts_of_routers_have_a_reason(api: ApiClient, name: str) -> None:
    router = f"/v0/routers/{name}"
    assert api.put(router, {"source": f"{name}.a", "dest": f"{name}.b"}).status == 201
    elsewhere = api.put(router, {"source": f"{name}.a", "dest": f"{name}.c"})
    assert (elsewhere.status, elsewhere.code) == (409, "topic_exists_incompatible")
    assert elsewhere.detail["reason"] == "router_leads_elsewhere"
    fan_in = api.put(f"{router}2", {"source": f"{name}.c", "dest": f"{name}.b"})
    assert (fan_in.status, fan_in.detail["reason"]) == (409, "router_dest_fan_in")


def test_before_migrate_it_is_503_and_a_line(tmp_path: Path) -> None:
    with database() as url:
        port, log = free_port(), tmp_path / "log"
        ours = {"DATABASE_URL": url, "REDIS_URL": django_settings.REDIS_URL, "SECRET_KEY": django_settings.SECRET_KEY}
        more = {"PORT": str(port), "TOPICS_DATA": str(tmp_path / "data"), "WEB_WORKERS": "1"}
        with log.open("wb") as output:
            web = subprocess.Popen(
                [sys.executable, "manage.py", "run", "web"], cwd=ROOT, env=os.environ | ours | more, stderr=output
            )
        try:
            live = HttpClient(port)
            until(lambda: listens(live), "the web server to listen", 150)
            for accept in ("*/*", "application/json;q=0.9"):
                for path in ("/v0/topics", "/v0/topics/t", "/v0/metrics", "/v0/ready"):
                    refused = live.get(path, accept=accept)
                    assert (refused.status, refused.code) == (503, "not_ready"), path
                    told = refused.json["error"]["message"]
                    assert re.search(r'relation "\w+" does not exist\): run `manage.py migrate`', told)
            assert "Traceback" not in log.read_text()
            migrate(url)
            assert until(lambda: live.append("t", 1).status == 201, "it to serve")
        finally:
            web.terminate()
            web.wait(DEADLINE)
            print(log.read_text())


def listens(live: HttpClient) -> bool:
    try:
        return live.get("/v0/health").status == 200
    except OSError:
        return False


def test_a_postgresql_that_is_too_old_is_told_so() -> None:
    """As the event loop finds it (PostgreSQL's number), and as Django tells it."""
    check_version(140_000)
    with pytest.raises(NotReady, match="PostgreSQL 13 is too old: expected 14 or later"):
        check_version(130_022)
    told = translated(NotSupportedError("PostgreSQL 14 or later is required (found 13.22)."))
    assert (type(told), str(told)) == (NotReady, "PostgreSQL 14 or later is required (found 13.22).")
