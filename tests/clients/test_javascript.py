"""The JavaScript client in Node.js: its README, its types, and its loops behind a proxy that cuts connections."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from topics_client import Topics, __version__

from tests.clients.proxy import proxy
from tests.clients.test_worker import figures
from tests.deadlines import DEADLINE
from tests.docs.printed import snippets
from tests.instances import ROOT, Instance, free_port, until
from tests.watch.wire import Api, new_name

pytestmark = [
    pytest.mark.deep(96),
    pytest.mark.skipif(shutil.which("node") is None, reason="the JavaScript client is tried in Node.js"),
]
PACKAGE = ROOT / "clients" / "js"
NODE = ["node", "--no-warnings", "--experimental-websocket"]  # a WebSocket in Node.js 20
PARTS = ROOT / "tests" / "clients" / "javascript" / "parts.mjs"
COUNT = 150
CUT = (4_000, 9_000)  # bytes after which a connection ends
CLAIMS_CUT = (15_000, 24_000)  # more than a claim has: otherwise no claim would come through


def part(url: str, name: str, *given: object) -> Any:
    command = [*NODE, str(PARTS), name, *map(str, given)]
    done = subprocess.run(
        command, env=os.environ | {"TOPICS_URL": url}, capture_output=True, text=True, timeout=2 * DEADLINE
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Program:
    """A part that runs until SIGTERM. `said`: its lines."""

    def __init__(self, url: str, name: str, *given: object) -> None:
        command = [*NODE, str(PARTS), name, *map(str, given)]
        self.process = subprocess.Popen(
            command, env=os.environ | {"TOPICS_URL": url}, stdout=subprocess.PIPE, text=True
        )
        self.said: list[Any] = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # otherwise a kill has cut it
                    self.said.append(json.loads(line))

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        self.reader.join()
        return self.process.wait()


@pytest.fixture
def log(server: Instance) -> str:
    name = new_name()
    assert Api(server.port).call("PUT", f"/v0/topics/{name}", {}).status == 201
    return name


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder of an application that has installed the tarball."""
    subprocess.run(["make", "-s", "client-js", f"DIST={tmp_path}"], cwd=ROOT, check=True, timeout=2 * DEADLINE)
    (tarball,) = tmp_path.glob("topics-client-*.tgz")
    assert __version__ in tarball.name, "both clients have one version"
    subprocess.run(
        ["npm", "install", "--silent", "--offline", tarball.name], cwd=tmp_path, check=True, timeout=2 * DEADLINE
    )
    return tmp_path


@pytest.mark.parametrize("way", ["append", "batch", "publish"])
def test_each_append_arrives_once_although_connections_are_cut(server: Instance, log: str, way: str) -> None:
    with proxy(server.port, CUT) as cutting:
        seqs = part(cutting.url, way, log, COUNT)
        assert cutting.cuts >= 2
    assert seqs in (None, list(range(1, COUNT + 1)))
    with Topics(server.url) as topics:
        assert [record.data for record in topics.topic(log).read().records] == list(range(COUNT))


@pytest.mark.parametrize("way", ["follow", "watch", "subscribe"])
def test_each_record_is_seen_once_although_connections_are_cut(server: Instance, log: str, way: str) -> None:
    with proxy(server.port, CUT) as cutting, Topics(server.url) as topics:
        appending = threading.Thread(
            target=lambda: [topics.topic(log).append("x" * 200, tag=str(n)) for n in range(COUNT)]
        )
        appending.start()
        assert part(cutting.url, way, log, COUNT) == list(range(1, COUNT + 1))
        appending.join()
        assert cutting.cuts >= 2
        assert len(cutting.requests) < 4 * COUNT


def test_a_worker_does_each_job_although_connections_are_cut(server: Instance, queue: str) -> None:
    count = 4 * COUNT  # many times the bytes of a connection
    Api(server.port).append(queue, *range(count))
    with proxy(server.port, CLAIMS_CUT) as cutting:
        worker = Program(cutting.url, "work", queue, 0)
        until(lambda: figures(server, queue) == (0, 0, 0), "the acks of all jobs")
        assert cutting.cuts >= 2
        assert worker.end(signal.SIGTERM) == 0
    assert set(worker.said) - {None} == set(range(count))


def test_a_loop_settles_each_job_when_it_asks_for_the_next(server: Instance, queue: str) -> None:
    Api(server.port).append(queue, 0, 1, 2)
    assert part(server.url, "loop", queue, 0) == [0, 1, 2]
    assert figures(server, queue) == (1, 0, 1)


def test_a_loop_names_the_delay_of_any_error(server: Instance, queue: str) -> None:
    Api(server.port).append(queue, 0)
    assert part(server.url, "failed", queue, 0) is None
    assert figures(server, queue) == (1, 0, 0)


def test_a_worker_waits_while_claims_are_refused(server: Instance, queue: str) -> None:
    """It ends at once although it shall wait for ten minutes."""
    with proxy(server.port) as refusing:
        refusing.refusals = [(503, 0), (429, 0)]
        worker = Program(refusing.url, "work", queue, 0)
        Api(server.port).append(queue, 2)
        until(lambda: worker.process.poll() is not None or worker.said == [2], "the job")
        assert not refusing.refusals
        refusing.refusals = [(503, 600)]
        Api(server.port).append(queue, 3)
        until(lambda: worker.process.poll() is not None or not refusing.refusals, "the refusal")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(DEADLINE) == 0


def test_a_thrown_zero_is_an_error(server: Instance, queue: str) -> None:
    api = Api(server.port)
    api.append(queue, 0)
    assert part(server.url, "zero", queue, 0) is None
    assert api.call("GET", f"/v0/topics/{queue}").body["count"] == 1, "the job was not acked"


def test_a_worker_whose_policy_fails_ends(server: Instance, queue: str) -> None:
    Api(server.port).append(queue, 0)
    assert part(server.url, "policy", queue, 0) == [["RangeError", "no delay"], 2]


def test_a_worker_extends_its_leases_also_if_the_clock_is_set_back(server: Instance, queue: str) -> None:
    Api(server.port).append(queue, 0)
    assert part(server.url, "backward", queue, 0) == 0


def test_a_socket_that_is_being_opened_is_the_only_one(server: Instance, log: str) -> None:
    assert part(server.url, "early", log, 0) == [1, [1, 2]]


@pytest.mark.parametrize("moved_ms", [[61_000, 0], [-600_000, 61_000]])
def test_a_publish_without_an_answer_for_a_minute_is_not_sent_again(
    server: Instance, log: str, moved_ms: list[int]
) -> None:
    """The topic could have forgotten its idempotency key. Meanwhile, the machine can sleep, or its clock be set back."""
    assert part(server.url, "late", log, 0, moved_ms) == ["Unreachable", 1, 1]


@pytest.mark.parametrize("moved_ms", [[61_000, 0], [-600_000, 61_000]])
def test_a_publish_without_a_socket_fails_after_a_minute(moved_ms: list[int]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    error = f"{url} opened no socket for a minute: the command was not sent"
    assert part(url, "unopened", "t", 0, moved_ms) == ["Unreachable", error]


@pytest.mark.parametrize("way", ["slept", "setBack"])
def test_an_append_without_an_answer_for_a_minute_is_not_sent_again(server: Instance, log: str, way: str) -> None:
    """Also if the machine sleeps within a pause, or its clock is set back. The topic could have forgotten the idempotency key."""
    assert part(server.url, way, log, 0) == ["Unreachable", 1]
    assert Api(server.port).call("GET", f"/v0/topics/{log}").body["count"] == 1


def test_a_second_subscription_takes_no_frame_of_the_first(server: Instance, log: str) -> None:
    Api(server.port).append(log, *range(COUNT))
    assert part(server.url, "again", log, COUNT) == list(range(1, COUNT + 1))


def test_a_socket_without_an_answer_is_replaced(server: Instance, log: str) -> None:
    """Its connection stays open, and carries nothing any more."""
    with proxy(server.port) as line:
        program = Program(line.url, "silent", log)
        Api(server.port).append(log, 1)
        until(lambda: program.said == [1], "the first record")
        line.lost = line.connections
        Api(server.port).append(log, 2)
        try:
            until(lambda: program.said == [1, 2], "the second record")
        finally:
            program.end(signal.SIGKILL)


def test_a_slow_subscription_lets_the_server_wait(server: Instance, log: str) -> None:
    Api(server.port).append(log, *range(COUNT))
    assert part(server.url, "slow", log, COUNT) == [True, list(range(1, COUNT + 1))]


def test_a_subscription_ends_by_its_signal_also_while_it_waits(server: Instance, log: str) -> None:
    assert part(server.url, "quiet", log, 0) == [True, [1]]


def test_a_value_without_json_fails_alone(server: Instance, log: str) -> None:
    assert part(server.url, "poison", log, 0) == [["TypeError", "TypeError"], [1, 2]]


def test_a_websocket_that_cannot_be_made_is_an_error_of_its_calls(server: Instance, log: str) -> None:
    assert part(server.url, "unmade", log, 0) == ["SyntaxError"] * 3


def test_members_and_workers_of_both_languages_share_while_some_are_killed(
    server: Instance, log: str, queue: str
) -> None:
    topics = Topics(server.url)
    member = topics.topic(log).group("both", partitions=8, session_ms=3000, commit_ms=0)
    worker = topics.worker(queue, concurrency=2, lease_ms=2000)
    seen: list[int] = []
    done: list[int] = []
    worker(lambda job: done.append(job.data))
    threads = [
        threading.Thread(target=lambda: [seen.append(record.seq) for record in member]),
        threading.Thread(target=worker.run),
    ]
    for thread in threads:
        thread.start()
    members, workers = ([Program(server.url, each, name, 0)] for each, name in (("group", log), ("work", queue)))
    for n in range(2 * COUNT):
        topics.topic(log).append(n, tag=str(n % 40))
        topics.topic(queue).append(n)
        if n == COUNT:
            until(lambda: members[0].said and workers[0].said, "the programs in JavaScript")
            for programs, each, name in ((members, "group", log), (workers, "work", queue)):
                programs[0].end(signal.SIGKILL)
                programs.append(Program(server.url, each, name, 0))
    until(lambda: figures(server, queue) == (0, 0, 0), "all jobs")
    until(lambda: len({*seen, *members[0].said, *members[1].said}) >= 2 * COUNT, "all records")
    assert members[1].end(signal.SIGTERM) == 0
    assert workers[1].end(signal.SIGTERM) == 0
    member.stop()
    worker.stop()
    topics.topic(log).append("last")  # ends the member's wait
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive()
    assert {*done, *workers[0].said, *workers[1].said} - {None} == set(range(2 * COUNT))
    topics.close()


def test_a_topic_without_a_start_begins_with_its_first_record(server: Instance) -> None:
    """Also one with the name of a method of each object."""
    Api(server.port).call("PUT", "/v0/topics/toString", {})
    Api(server.port).append("toString", 1, 2)
    assert part(server.url, "watchFrom", "toString", 2, "{}") == [1, 2]
    assert part(server.url, "watchFrom", "toString", 1, '{"toString": 1}') == [2]


def test_a_store_continues_with_its_subscribers(server: Instance, log: str) -> None:
    Api(server.port).append(log, 1, 2)
    assert part(server.url, "store", log, 0) == 7


def test_a_cursor_is_not_committed_with_each_page(server: Instance, log: str) -> None:
    Api(server.port).append(log, *range(6))
    assert part(server.url, "patient", log, 0) == [None, 4]


def test_a_loop_that_is_left_ends_its_read_ahead(server: Instance, log: str) -> None:
    """Otherwise a process without a server would not end."""
    Api(server.port).append(log, *range(6))
    assert part(server.url, "left", log, 0) == [False, True]


def test_an_abort_within_a_commit_ends_the_loop(server: Instance, log: str) -> None:
    Api(server.port).append(log, 1, 2)
    assert part(server.url, "aborted", log, 0) == [[1], 1]


def test_a_cursor_that_is_at_the_wanted_seq_has_moved_unless_the_call_was_repeated(server: Instance, log: str) -> None:
    Api(server.port).append(log, 1)
    assert part(server.url, "fenced", log, 0) == ["cursor_moved", "cursor_moved", 1, 1]


def test_a_loop_continues_in_a_topic_that_was_created_again(server: Instance, log: str) -> None:
    """Also in the next loop, which begins at the cursor of the new topic."""
    assert part(server.url, "recreated", log, 0) == [1, 2, 2, "recreated", 3, "recreated", 4, 4]


def test_a_loop_with_a_commit_to_make_continues_in_a_topic_that_was_created_again(server: Instance, log: str) -> None:
    assert part(server.url, "recreatedWithin", log, 0) == [1, 2, 3, "recreated", 4, 4]


def test_errors_say_what_to_do(server: Instance, log: str) -> None:
    assert Api(server.port).call("PUT", f"/v0/topics/{log}", {"cap_records": 1}).status == 200
    Api(server.port).append(log, 1, 2, 3)
    assert part(server.url, "refused", log, 0) == [
        "Refused topic_not_found",
        "Refused cursor_moved",
        "Refused topic_not_found",
        "Unreachable",
        "TypeError",
        "Refused topic_not_found",
        "RecordsLost",
    ]


def test_a_redirect_is_refused(server: Instance, log: str) -> None:
    """fetch follows that of an append with a GET, whose answer looks like a success."""
    with proxy(server.port) as moved, Topics(server.url) as topics:
        moved.refusals = [(301, 0), (302, 0), (307, 0)]
        moved.refused = re.compile(rb"/v0/")
        words = "without an error code: check that the URL is of a topics server"
        told = part(moved.url, "redirected", log, 1)
        assert sorted(map(str, told)) == [
            f"InvalidAnswer: the server answered {status} {words}" for status in (301, 302, 307)
        ]
        assert topics.topic(log).read().records == []


def test_a_name_that_leads_to_another_path_is_refused(server: Instance, log: str) -> None:
    """fetch takes `..` out of a path, so the call would be another one."""
    told = [
        f'TypeError: invalid name "{name}": expected a name other than . and ..' for name in ("..", ".", "", "..", "..")
    ]
    assert part(server.url, "names", log, 0) == told
    assert Api(server.port).call("GET", f"/v0/topics/{log}").status == 200


def test_the_examples_run(instances: Any, installed: Path) -> None:
    server = instances()  # the examples are written for a topic that has no records yet
    (first,) = snippets("README.md", "js")
    for example in [*snippets("clients/js/README.md", "js"), first.replace("http://localhost:4000", server.url)]:
        (installed / "example.mjs").write_text(example)
        environment = os.environ | {"TOPICS_URL": server.url}
        done = subprocess.run(
            [*NODE, "example.mjs"], cwd=installed, env=environment, capture_output=True, text=True, timeout=DEADLINE
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_typescript_finds_no_fault(installed: Path) -> None:
    got = subprocess.run(
        [
            "npm",
            "install",
            "--silent",
            "--fetch-retries=1",
            "--no-audit",
            "--no-fund",
            "typescript@5",
            "@types/node@20",
        ],
        cwd=installed,
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE,
    )
    if got.returncode:
        pytest.skip("NOT TRIED: the registry of npm is not reachable")
    for n, example in enumerate(snippets("clients/js/README.md", "js")):
        (installed / f"example{n}.mts").write_text(example.replace("let last;", "let last!: { seq: Promise<number> };"))
    wrong = 'import { Topics } from "@topics/client";\nnew Topics().topic<{ id: number }>("t").append({ id: "7" });\n'
    (installed / "wrong.mts").write_text(wrong)
    strict = ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext"]
    done = subprocess.run(
        ["npx", "tsc", *strict, *sorted(str(path.name) for path in installed.glob("*.mts"))],
        cwd=installed,
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE,
    )
    assert [line.partition("(")[0] for line in done.stdout.splitlines() if not line.startswith(" ")] == ["wrong.mts"]
