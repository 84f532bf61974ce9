"""`topics mirror`: each record once at each site, whatever is killed."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest

from base.refusal import Refusal
from shell.flow import Address, Flow
from shell.mirroring import Mirror as MirrorProcess
from tests.api.clients import HttpClient
from tests.clients.proxy import proxy
from tests.deadlines import DEADLINE
from tests.examples import examples
from tests.instances import Instance, start, until
from tests.mirrors.running import Mirroring, Writer, check_site, records
from tests.threads import no_thread

pytestmark = pytest.mark.deep(64)


KEYS = "all-of-it-0123456789:read+write+commit,reads-only-0123456789:read,elsewhere-0123456789:read+write+commit:other"
TINY = {"idempotency_window_ms": 1}  # no key of idempotency may be needed
Mirror = Callable[..., Mirroring]


@pytest.fixture(scope="module")
def sites() -> Iterator[dict[str, Instance]]:
    with ExitStack() as stack:
        yield {site: stack.enter_context(start()) for site in ("fra", "iad", "ham")}


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"m-{abs(hash(request.node.nodeid)):x}"


@pytest.fixture
def mirror(sites: dict[str, Instance], tmp_path: Path) -> Iterator[Mirror]:
    started: list[Mirroring] = []

    def begin(here: str, there: str, *arguments: str, here_url: str | None = None) -> Mirroring:
        ends = (here, sites[here]), (there, sites[there])
        started.append(Mirroring(tmp_path, *ends, *arguments, here_url=here_url))
        return started[-1]

    yield begin
    for each in started:
        each.kill()


def client(at: Instance) -> HttpClient:
    return HttpClient(at.port)


def positions(at: Instance, topic: str) -> dict[str, int]:
    return {each["site"]: each["read_seq"] for each in client(at).get(f"/v0/topics/{topic}/mirror").json["sites"]}


@pytest.mark.guarantee("F6")
def test_a_mirror_that_is_killed_at_any_moment_is_exact(sites: dict[str, Instance], mirror: Mirror, topic: str) -> None:
    """Writers at both sites never stop, and the new process starts at once, while calls of the old one may be under way."""
    moments = random.Random(46)
    for site in ("fra", "iad"):
        client(sites[site]).put(f"/v0/topics/{topic}", TINY)
    writers = {site: Writer(sites[site], site, topic) for site in ("fra", "iad")}
    for _ in range(examples(2)):
        running = mirror("fra", "iad", topic)
        running.runs()
        time.sleep(moments.random() * 0.5)  # what is tested is the kill, at any moment
        running.kill()
    written = {site: writer.end() for site, writer in writers.items()}
    for _ in range(2):  # the second run finds nothing to do
        mirror("fra", "iad", topic, "--once").finish()
        for site in written:
            check_site(sites[site], topic, written)
    assert min(written.values()) > 100


@pytest.mark.guarantee("F6")
def test_a_mirror_begins_although_the_last_call_of_the_one_before_arrives_now(
    sites: dict[str, Instance], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call arrives after the new process has asked for the position."""
    for count in (1, 5):
        client(sites["fra"]).append(topic, *range(count))
    there = Address("fra", sites["fra"].url, None), Address("iad", sites["iad"].url, None)
    before, after = (Flow(topic, *there, TINY, once=True) for _ in range(2))

    def late() -> None:
        before.begin()
        before.turn()

    monkeypatch.setattr(after, "check_other_server", late)
    after.begin()
    after.run()
    assert after.failure is None
    assert [each["data"] for each in records(sites["iad"], topic)] == [0, *range(5)]


@pytest.mark.guarantee("F6")
def test_two_processes_of_a_mirror_append_each_record_once(
    sites: dict[str, Instance], mirror: Mirror, topic: str
) -> None:
    client(sites["fra"]).put(f"/v0/topics/{topic}", TINY)
    both = [mirror("fra", "iad", topic) for _ in range(2)]
    for each in both:
        each.runs()
    writers = {site: Writer(sites[site], site, topic) for site in ("fra", "iad")}
    until(lambda: any(each.says("stands by, because another process") for each in both), "a process to stand by")
    both[0].kill()
    written = {site: writer.end() for site, writer in writers.items()}
    both[1].stop()
    mirror("fra", "iad", topic, "--once").finish()
    for site in written:
        check_site(sites[site], topic, written)


@pytest.mark.guarantee("F6")
@pytest.mark.parametrize("pairs", [("fra iad", "iad ham", "ham fra"), ("fra iad", "fra ham")], ids=["ring", "star"])
def test_three_sites_have_each_record_once(
    sites: dict[str, Instance], mirror: Mirror, topic: str, pairs: tuple[str, ...]
) -> None:
    for at in sites.values():
        client(at).put(f"/v0/topics/{topic}", TINY)
    mirrors = [mirror(*pair.split(), topic) for pair in pairs]
    for each in mirrors:
        each.runs()
    writers = {site: Writer(at, site, topic) for site, at in sites.items()}
    until(lambda: min(writer.count for writer in writers.values()) > 200, "the sites to write")
    mirrors[0].kill()
    mirror(*pairs[0].split(), topic).runs()
    written = {site: writer.end() for site, writer in writers.items()}
    until(lambda: all(len(records(at, topic)) >= sum(written.values()) for at in sites.values()), "all to arrive")
    for at in sites.values():
        check_site(at, topic, written)
    heads = [client(at).get(f"/v0/topics/{topic}").json["head_seq"] for at in sites.values()]
    assert heads == [sum(written.values())] * 3  # nothing goes round


def test_sigterm_stores_the_positions_and_each_change_is_one_line(
    sites: dict[str, Instance], mirror: Mirror, topic: str
) -> None:
    client(sites["fra"]).append(topic, *range(30))
    with proxy(sites["fra"].port) as fra:
        running = mirror("fra", "iad", topic, here_url=fra.url)
        until(lambda: client(sites["iad"]).diff(topic).json.get("head_seq") == 30, "the records to arrive")
        client(sites["iad"]).append(topic, "back")
        until(lambda: client(sites["fra"]).diff(topic).json["head_seq"] == 31, "the record to arrive")
        until(lambda: any(b'{"from_seq":31,' in sent for sent in fra.sent), "the record to be read, and left out")
        running.stop()
    assert sorted(running.lines) == [
        f"topics: {topic}, fra to iad: runs, from seq 0",
        f"topics: {topic}, iad to fra: runs, from seq 0",
        "topics: stopped, and stored all positions",
    ]
    for site, other, head in (("fra", "iad", 31), ("iad", "fra", 31)):
        (cursor,) = client(sites[site]).get(f"/v0/topics/{topic}/cursors").json["cursors"]
        assert (cursor["cursor"], cursor["kind"], cursor["seq"], cursor["lag"]) == (f"mirror:{other}", "named", head, 0)
        assert positions(sites[other], topic) == {site: head}


def test_a_new_topic_has_the_config_and_a_prefix_finds_it(
    sites: dict[str, Instance], mirror: Mirror, topic: str
) -> None:
    running = mirror("fra", "iad", "--prefix", topic)
    client(sites["iad"]).put(f"/v0/topics/{topic}-a", {"ttl_ms": 3_600_000, "durability": "fsync"})
    client(sites["iad"]).put(f"/v0/topics/{topic}-q", {"type": "queue"})
    until(lambda: client(sites["fra"]).get(f"/v0/topics/{topic}-a").status == 200, "the topic to appear")
    config = client(sites["fra"]).get(f"/v0/topics/{topic}-a").json["config"]
    assert (config["ttl_ms"], config["durability"]) == (3_600_000, "fsync")
    until(lambda: running.says("left out, because it is a queue"), "the queue to be named")
    assert client(sites["fra"]).get(f"/v0/topics/{topic}-q").status == 404


def test_one_way_leaves_the_source_alone(sites: dict[str, Instance], mirror: Mirror, topic: str) -> None:
    client(sites["fra"]).append(topic, 1)
    client(sites["iad"]).append(topic, 2)
    mirror("fra", "iad", topic, "--one-way", "--once").finish()
    assert [each["data"] for each in records(sites["fra"], topic)] == [1]
    assert [each["data"] for each in records(sites["iad"], topic)] == [2, 1]


def told(at: Instance, topic: str) -> list[Any]:
    """Returns what a reader gets: the data of each record, and (reason, number of seqs) of each tombstone."""
    seq, found = 0, []
    while True:
        window = client(at).diff(topic, from_seq=seq, limit=1000).json
        if (gap := window["tombstone"]) is not None:
            found.append((gap["reason"], gap["missed_estimate"]))
        found += [each["data"] for each in window["records"]]
        seq = window["next_from_seq"]
        if window["caught_up"]:
            return found


@pytest.mark.guarantee("F6")
def test_losses_at_the_source_are_told_and_counted(sites: dict[str, Instance], mirror: Mirror, topic: str) -> None:
    """Before the first run, and while no mirror ran. A third site gets the losses from the second. A delete is no loss."""
    fra, iad, ham = (sites[site] for site in ("fra", "iad", "ham"))
    for at in (iad, ham):
        client(at).put(f"/v0/topics/{topic}")
    client(fra).put(f"/v0/topics/{topic}", {"cap_records": 3})
    client(fra).append(topic, *range(10))
    client(iad).append(topic, "mine")
    lines = mirror("fra", "iad", topic, "--one-way", "--once").finish()
    assert f"topics: {topic}, fra to iad: seqs 1 to 7 were lost at fra (cap) before the mirror" in lines
    client(fra).append(topic, *range(10, 15))
    client(fra).post(f"/v0/topics/{topic}/delete", {"seqs": [14]})
    mirror("fra", "iad", topic, "--one-way", "--once").finish()
    whole = ["mine", ("source_trim", 7), 7, 8, 9, ("source_trim", 2), 12, 14]
    for _ in range(2):  # the second run finds nothing to do
        for pair in (("iad", "ham"), ("ham", "fra"), ("fra", "iad")):
            mirror(*pair, topic, "--once").finish()
        assert told(iad, topic) == whole
        assert told(ham, topic) == whole
    (site,) = [each for each in client(iad).get(f"/v0/topics/{topic}/mirror").json["sites"] if each["site"] == "fra"]
    assert (site["lost"], [loss["lost_seq"] for loss in site["losses"]]) == (9, [7, 12])
    # The losses do not return to their site.
    assert [each["lost"] for each in client(fra).get(f"/v0/topics/{topic}/mirror").json["sites"]] == [0, 0]


@pytest.mark.guarantee("F6")
def test_a_mirror_that_is_killed_while_the_source_loses_records_tells_each_loss_once(
    sites: dict[str, Instance], mirror: Mirror, topic: str
) -> None:
    """Each seq at fra is a record or a lost seq at iad, so the heads are equal."""
    fra, iad = sites["fra"], sites["iad"]
    client(fra).put(f"/v0/topics/{topic}", {**TINY, "cap_records": 40})
    client(iad).put(f"/v0/topics/{topic}", TINY)
    writer = Writer(fra, "fra", topic)
    moments = random.Random(47)
    for _ in range(examples(2)):
        lacks = writer.count + 80
        until(lambda lacks=lacks: writer.count > lacks, "the source to lose records")
        running = mirror("fra", "iad", topic, "--one-way")
        until(lambda running=running: running.says("were lost at fra (cap)"), "the mirror to see the loss")
        time.sleep(moments.random() * 0.1)  # what is tested is the kill, at any moment
        running.kill()
    written = writer.end()
    for _ in range(2):
        mirror("fra", "iad", topic, "--one-way", "--once").finish()
        expected = losses = 0
        for each in told(iad, topic):
            if isinstance(each, tuple):
                assert each[0] == "source_trim"
                expected, losses = expected + each[1], losses + each[1]
            else:
                assert each["n"] == expected
                expected += 1
        assert expected == written
        assert client(iad).get(f"/v0/topics/{topic}").json["head_seq"] == written
        assert client(iad).get(f"/v0/topics/{topic}/mirror").json["sites"][0]["lost"] == losses > 100


def test_a_mirror_waits_for_servers_and_topics(tmp_path: Path, sites: dict[str, Instance], topic: str) -> None:
    with start() as other:
        client(other).append(topic, 1)
        running = Mirroring(tmp_path, ("fra", sites["fra"]), ("oth", other), topic)
        try:
            running.runs()
            other.stop()
            client(sites["fra"]).append(topic, 2)
            until(lambda: running.says("waits. oth (http://"), "the mirror to notice")
            other.start()
            until(lambda: len(records(other, topic)) == 2, "the record to arrive")
            until(lambda: running.says("runs again"), "the mirror to run again")
            running.stop()
        finally:
            running.kill()
        # A line a state, however long it lasts: the trouble can have several causes.
        assert sum("waits. oth" in line for line in running.lines) <= 6, running.lines


def test_sites_that_are_killed_stay_alike(tmp_path: Path, topic: str) -> None:
    """A crash takes back the last records of the dest together with their position, so the mirror sends them again."""
    with start(TOPICS_PROCESSES="worker,beat") as fra, start(TOPICS_PROCESSES="worker,beat") as iad:
        client(fra).put(f"/v0/topics/{topic}", TINY)
        running = Mirroring(tmp_path, ("fra", fra), ("iad", iad), topic)
        try:
            running.runs()
            writer = Writer(fra, "fra", topic)
            for _ in range(2):
                before = writer.count
                until(lambda before=before: writer.count > before + 300, "the writer to write")
                iad.kill()
                iad.start()
            written = writer.end()
            until(lambda: len(records(iad, topic)) >= written, "the records to arrive")
            running.stop()
        finally:
            running.kill()
        for at in (fra, iad):
            check_site(at, topic, {"fra": written})
        (site,) = client(fra).get(f"/v0/topics/{topic}/mirror").json["sites"]
        assert site["origin_seq"] == 0  # nothing came back


def test_a_dest_that_lost_its_records_gets_them_again(sites: dict[str, Instance], mirror: Mirror, topic: str) -> None:
    client(sites["fra"]).append(topic, 1, 2)
    running = mirror("fra", "iad", topic)
    until(lambda: client(sites["iad"]).diff(topic).json.get("head_seq") == 2, "the records to arrive")
    client(sites["iad"]).delete(f"/v0/topics/{topic}")
    client(sites["fra"]).append(topic, 3)
    until(lambda: [each["data"] for each in records(sites["iad"], topic)] == [1, 2, 3], "the records to arrive again")
    assert running.says("iad is back at seq 0")


def test_a_source_that_was_created_again_continues(sites: dict[str, Instance], mirror: Mirror, topic: str) -> None:
    client(sites["fra"]).append(topic, 1, 2)
    running = mirror("fra", "iad", topic)
    until(lambda: client(sites["iad"]).diff(topic).json.get("head_seq") == 2, "the records to arrive")
    client(sites["fra"]).delete(f"/v0/topics/{topic}")
    until(lambda: running.says("waits. fra"), "the mirror to notice")
    client(sites["fra"]).append(topic, 3)
    until(lambda: [each["data"] for each in records(sites["iad"], topic)] == [1, 2, 3], "the record to arrive")
    assert [each["data"] for each in records(sites["fra"], topic)] == [3]  # a deleted record does not come back
    running.stop()


def test_a_source_with_an_older_copy_of_its_data_is_refused(
    sites: dict[str, Instance], mirror: Mirror, topic: str
) -> None:
    client(sites["fra"]).append(topic, 1, 2)
    mirror("fra", "iad", topic, "--once").finish()
    client(sites["fra"]).put(f"/v0/topics/{topic}", {"sealed": True})
    client(sites["fra"]).delete(f"/v0/topics/{topic}?if_sealed=true&keep_head=false")
    client(sites["fra"]).append(topic, "after the restore")
    assert "is 1, but seq 2 was mirrored before" in mirror("fra", "iad", topic, "--once").refuses()


def test_new_records_under_old_seqs_are_refused(sites: dict[str, Instance], mirror: Mirror, topic: str) -> None:
    client(sites["fra"]).append(topic, 1, 2)
    mirror("fra", "iad", topic, "--once").finish()
    client(sites["fra"]).put(f"/v0/topics/{topic}", {"sealed": True})
    client(sites["fra"]).delete(f"/v0/topics/{topic}?if_sealed=true&keep_head=false")
    client(sites["fra"]).append(topic, "after", "the", "restore")
    line = mirror("fra", "iad", topic, "--once").refuses()
    assert "record 2 at fra" in line
    assert "is not the record that was mirrored before" in line
    assert [each["data"] for each in records(sites["iad"], topic)] == [1, 2]


def test_what_cannot_work_is_one_line(sites: dict[str, Instance], mirror: Mirror, topic: str, tmp_path: Path) -> None:
    client(sites["fra"]).put(f"/v0/topics/{topic}-q", {"type": "queue"})
    for arguments, told in [
        ((f"{topic}-absent", "--once"), f"topic '{topic}-absent' does not exist yet"),
        ((f"{topic}-q",), "is a queue"),
    ]:
        assert told in mirror("fra", "iad", *arguments).refuses()
    with start(TOPICS_API_KEYS=KEYS) as keyed:
        body = {"records": [{"data": 1}]}
        key = {"authorization": "Bearer all-of-it-0123456789"}
        assert client(keyed).post(f"/v0/topics/{topic}", body, **key).status == 201
        for key, told in [
            ("wrong", "unknown"),
            ("reads-only-0123456789", "lacks the scope"),
            ("elsewhere-0123456789", "prefix"),
        ]:
            refused = Mirroring(tmp_path, ("fra", sites["fra"]), ("key", keyed), topic, "--there-key", key)
            line = refused.refuses()
            assert told in line
            assert f"key ({keyed.url})" in line
        there = Mirroring(
            tmp_path, ("fra", sites["fra"]), ("key", keyed), topic, "--once", "--there-key", "all-of-it-0123456789"
        )
        there.finish()
        assert [each["data"] for each in records(sites["fra"], topic)] == [1]
        client(sites["fra"]).append(f"{topic}-new", 1)
        new = Mirroring(
            tmp_path, ("fra", sites["fra"]), ("key", keyed), f"{topic}-new", "--there-key", "all-of-it-0123456789"
        )
        assert "lacks the scope 'admin'" in new.refuses()


def test_one_server_under_two_names_is_refused(sites: dict[str, Instance], topic: str, tmp_path: Path) -> None:
    fra = sites["fra"]
    client(fra).append(topic, 1)
    same = Instance(fra.data, fra.port)
    for url, told in ((fra.url, "both URLs are"), (fra.url.replace("127.0.0.1", "localhost"), "lead to one server")):
        other = type("Named", (), {"url": url})()
        assert told in Mirroring(tmp_path, ("fra", same), ("iad", other), topic).refuses()
    assert [each["data"] for each in records(fra, topic)] == [1]
    assert client(fra).get(f"/v0/topics/{topic}/cursors").json["cursors"] == []


def test_ctrl_c_ends_with_130(sites: dict[str, Instance], mirror: Mirror, topic: str) -> None:
    client(sites["fra"]).append(topic, 1)
    running = mirror("fra", "iad", topic)
    running.runs()
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(DEADLINE) == 130


def test_a_flow_without_a_thread_ends_the_mirror_in_order(
    sites: dict[str, Instance], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SecondWithoutThread(Flow):
        def start(self) -> None:
            with no_thread() if self.source.at.site == "iad" else nullcontext():
                super().start()

    monkeypatch.setattr("shell.mirroring.Flow", SecondWithoutThread)
    client(sites["fra"]).append(topic, 1)
    ends = [Address(site, sites[site].url, None) for site in ("fra", "iad")]
    running = MirrorProcess(*ends, [topic], [], one_way=False, once=False)
    with pytest.raises(Refusal, match=rf"{topic}, iad to fra: did not start \(can't start new thread\)"):
        running.run()
    first, second = running.running()
    assert first.stopping.is_set()
    assert not second.is_alive()


def test_once_leaves_no_lag(sites: dict[str, Instance], mirror: Mirror, topic: str) -> None:
    """What a direction appends is behind the other direction's head, which it may have reached before."""
    client(sites["fra"]).append(topic, *range(1500))
    client(sites["iad"]).append(topic, "of iad")
    for _ in range(2):
        mirror("fra", "iad", topic, "--once").finish()
        for here, there in (("fra", "iad"), ("iad", "fra")):
            assert client(sites[here]).get(f"/v0/topics/{topic}/cursors/mirror:{there}").json["lag"] == 0
            assert positions(sites[here], topic) == {there: 1501}
