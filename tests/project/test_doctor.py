"""`manage.py doctor` on a running instance: nothing to change, and then one fault after another."""

from __future__ import annotations

import http.server
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.api.clients import HttpClient
from tests.deadlines import DEADLINE
from tests.door.shop import as_role
from tests.groups.member import joined
from tests.instances import ROOT, WHOLE, Instance, start, until
from tests.preloaded import run
from tests.push.bus import Client
from tests.watch.wire import Api


@pytest.fixture(scope="module")
def whole() -> Iterator[Instance]:
    with start(**WHOLE) as instance:
        until(lambda: not doctor(instance).returncode, "every process to give a heartbeat")
        yield instance


def doctor(instance: Instance, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "manage.py", "doctor", *options], {**instance.environment, **settings}, ROOT)


def lines(instance: Instance, *options: str, **settings: str) -> dict[str, str]:
    """The last finding of each subject, with its level."""
    found = {}
    for line in doctor(instance, *options, **settings).stdout.splitlines():
        level, rest = line.split(maxsplit=1)
        subject, _, said = rest.partition(": ")
        found[subject] = f"{level} {said}"
    return found


def test_a_deployment_without_fault(whole: Instance) -> None:
    HttpClient(whole.port).append("orders", 1)
    done = doctor(whole, "--url", whole.url)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "fault " not in done.stdout
    for wanted in ("PostgreSQL: ", "Redis: ", "web: runs", "worker: runs", "push: runs", "beat: runs"):
        assert f"ok       {wanted}" in done.stdout
    assert "ok       streams: arrive at once." in done.stdout


@pytest.mark.parametrize(
    ("setting", "subject", "said"),
    [
        ("autovacuum = off", "autovacuum", "fault is off. Set autovacuum = on: "),
        ("fsync = off", "fsync", "fault is off. Set fsync = on: "),
        (
            "synchronous_standby_names = 'other'",
            "replication",
            "fault synchronous_standby_names is 'other', and no such",
        ),
    ],
)
def test_a_setting_of_postgresql_that_loses_or_blocks(whole: Instance, setting: str, subject: str, said: str) -> None:
    cluster = whole.data / "postgresql"
    configuration = cluster / "postgresql.auto.conf"
    before = configuration.read_text()
    postmaster = int((cluster / "postmaster.pid").read_text().split()[0])
    configuration.write_text(f"{before}\n{setting}\n")
    os.kill(postmaster, signal.SIGHUP)
    try:
        until(lambda: lines(whole).get(subject, "").startswith(said), f"the fault of {subject}")
    finally:
        configuration.write_text(before)
        os.kill(postmaster, signal.SIGHUP)


def test_sql_objects_of_another_version(whole: Instance) -> None:
    """`migrate --check` notices it as well, and `migrate` applies the text of this version."""

    def migrate(*options: str) -> subprocess.CompletedProcess[str]:
        return run([sys.executable, "manage.py", "migrate", *options], whole.environment, ROOT)

    with whole.connect() as connection:
        some = "SELECT name FROM store_object WHERE name LIKE 'topics/functions/%' LIMIT 4"
        connection.execute(f"UPDATE store_object SET digest = 'of another' WHERE name IN ({some})")
    said = (
        r"warning 4 SQL objects of another version or missing: (topics/functions/\w+, ){3}…\. Run `manage\.py migrate`"
    )
    assert re.match(said, lines(whole)["objects"])
    assert migrate("--check").returncode == 1
    assert "SQL objects: 4 applied." in migrate().stdout
    assert migrate("--check").returncode == 0
    assert "objects" not in lines(whole)


def test_a_queue_and_a_group_that_nobody_works_on(whole: Instance) -> None:
    api = HttpClient(whole.port)
    api.append("unclaimed", 1, 2, config={"type": "queue"})
    api.append("unread", 1)
    member = joined(Api(whole.port), "unread", "billing", from_seq=0, partitions=1)
    assert member.commit(*member.until_seqs(1)).status == 200
    api.append("unread", 2, 3)
    assert not {"queues", "groups"} & set(lines(whole))  # jobs may wait for some minutes, and the group has a member
    with whole.connect() as connection:
        connection.execute(
            "UPDATE topics_record SET ts = ts - 3600000"
            " WHERE topic_id = (SELECT id FROM topics_topic WHERE name = 'unclaimed')"
        )
    assert member.leave().status == 200
    member.close()
    found = lines(whole)
    assert found["queues"].startswith("warning Queue unclaimed has 2 ready jobs. The oldest waits for 1 h")
    assert found["queues"].endswith("No worker claims jobs. Start one.")
    said = "warning Group billing of unread has no member and is 2 records behind."
    assert found["groups"] == f"{said} Start a member. If no reader needs the group, delete it."


def test_processes_that_do_not_run(instances: Callable[..., Instance]) -> None:
    instance = instances(ROUTEMASTER_CLIENTS="plain")
    found = lines(instance)
    assert "push" not in found  # neither TOPICS_PROCESSES nor a subscription wants it
    assert found["web"] == "ok runs."
    Client(instance, "plain", "plain").subscribe("orders", callback="https://example.com/events")
    found |= lines(instance)
    for kind in "worker", "beat", "push":
        assert found[kind] == f"fault never seen. Start `manage.py run`, or `manage.py run {kind}` on some host."


def test_servers_that_are_away(whole: Instance) -> None:
    nowhere = {"DATABASE_URL": "postgresql://127.0.0.1:9/none", "REDIS_URL": "redis://127.0.0.1:9/0"}
    done = doctor(whole, **nowhere, SECRET_KEY="of a test that keeps nothing and signs nothing, ever")
    assert done.returncode == 1
    assert "fault    PostgreSQL: does not answer: " in done.stdout
    assert "fault    Redis: does not answer: " in done.stdout
    assert done.stderr.strip() == "CommandError: 2 faults"


def test_missing_connections_and_files(whole: Instance) -> None:
    found = lines(whole, WEB_WORKERS="40", TOPICS_MAX_STREAMS="2000000000")
    assert found["connections"].startswith("warning ")
    assert "Set max_connections of PostgreSQL to " in found["connections"]
    assert found["open files"].startswith("warning a process may open ")


def test_a_limit_of_connections_of_the_database_or_the_role(whole: Instance) -> None:
    """Each is below the limit of PostgreSQL, and the one of the role is the lowest."""
    url = as_role(whole.servers.database_url, "limited")
    with whole.connect() as connection:
        connection.execute("CREATE ROLE limited LOGIN PASSWORD 'secret' CONNECTION LIMIT 43")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO limited")
        connection.execute("ALTER DATABASE topics CONNECTION LIMIT 143")
        try:
            of_database = lines(whole, WEB_WORKERS="40")["connections"]
            of_role = lines(whole, WEB_WORKERS="40", DATABASE_URL=url, SECRET_KEY=whole.secret)["connections"]
        finally:
            connection.execute("ALTER DATABASE topics CONNECTION LIMIT -1")
            connection.execute("REVOKE SELECT ON ALL TABLES IN SCHEMA public FROM limited; DROP ROLE limited")
    for found, most, whose in ((of_database, 143, "database"), (of_role, 43, "role")):
        assert found.startswith("warning ")
        assert f", {most} possible. Set CONNECTION LIMIT of the {whose} to " in found


def test_a_proxy_that_holds_back_a_stream(whole: Instance) -> None:
    HttpClient(whole.port).append("orders", 1)
    with holding_back(whole) as url:
        found = lines(whole, "--url", url)
    assert found["proxy"] == f"ok {url} answers."
    assert found["streams"].startswith("fault nothing arrived in 5 s. Turn buffering off in the proxy")
    assert lines(whole, "--url", "http://127.0.0.1:9")["proxy"].startswith("fault http://127.0.0.1:9 does not answer")


@contextmanager
def holding_back(instance: Instance) -> Iterator[str]:
    """The address of a proxy that passes calls on, and collects a stream until its end."""
    ended = threading.Event()

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/v0/watch/"):
                ended.wait(DEADLINE)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {"Content-Type": "application/json"}
            sent = urllib.request.Request(instance.url + self.path, body or None, headers, method=self.command)
            with urllib.request.urlopen(sent, timeout=DEADLINE) as answer:
                text = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            ended.set()
            server.shutdown()
