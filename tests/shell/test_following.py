"""`manage.py topics tail -f`: real processes, which print what others append."""

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from base.clock import now_ms
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, until
from tests.scripts import delete_topic, put_topic
from tests.shell.writing import put
from tests.watch.test_trouble import append_again, durable
from tests.watch.wire import Api
from topics.config import Config

pytestmark = pytest.mark.deep(55)


Tail = subprocess.Popen[bytes]
Start = Callable[..., Tail]
PIPE_BYTES = 65536


@pytest.fixture
def following(process: Start) -> Iterator[Start]:
    started: list[Tail] = []

    def start(*arguments: object) -> Tail:
        started.append(process("tail", "-f", *arguments))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def lines(tail: Tail, count: int) -> list[bytes]:
    assert tail.stdout is not None
    return [tail.stdout.readline().removesuffix(b"\n") for _ in range(count)]


def told(tail: Tail) -> str:
    """The next line on standard error."""
    assert tail.stderr is not None
    return tail.stderr.readline().decode().strip()


def end(tail: Tail) -> tuple[int, bytes, bytes]:
    tail.send_signal(signal.SIGINT)
    out, err = tail.communicate(timeout=DEADLINE)
    return tail.returncode, out, err


def test_it_prints_what_comes_and_ends_on_ctrl_c(following: Start) -> None:
    put("live", "1")
    tail = following("live")
    assert lines(tail, 1) == [b"1"]
    for number in range(2, 5):
        put("live", str(number))
        assert lines(tail, 1) == [b"%d" % number]
    assert end(tail) == (130, b"", b"")


def test_it_prints_only_matches(following: Start) -> None:
    put("live", "1", tag="a")
    tail = following("live", "--match", "a")
    assert lines(tail, 1) == [b"1"]
    for number in range(2, 5):
        put("live", "0", tag="b")
        put("live", str(number), tag="a")
        assert lines(tail, 1) == [b"%d" % number]
    assert end(tail) == (130, b"", b"")


def test_each_of_many_records_is_printed_once_and_in_order(following: Start) -> None:
    put("a", "0")
    tail = following("a", "-n", 1)
    assert lines(tail, 1) == [b"0"]
    for first in range(1, 5001, 500):
        put("a", *map(str, range(first, first + 500)))
    assert lines(tail, 5000) == [b"%d" % number for number in range(1, 5001)]


def test_several_topics_with_a_heading_where_the_topic_changes(following: Start) -> None:
    for name in ("a", "b", "c"):
        put(name, "0")
    tail = following("a", "b", "c", "-n", 0)
    # What is appended before it follows is not printed, and nobody is told when it does.
    seen = until_it_follows(tail, "a")
    assert seen[0] == b"==> a <=="
    for name, value in (("b", b"1"), ("c", b"2"), ("a", b"3")):
        put(name, value.decode())
        assert lines(tail, 2) == [b"==> %b <==" % name.encode(), value]
    put("a", "4", "5")
    assert lines(tail, 2) == [b"4", b"5"]
    assert end(tail) == (130, b"", b"")


def until_it_follows(tail: Tail, name: str) -> list[bytes]:
    """Appends until some of it is printed; all that was."""
    until(lambda: (put(name, '"?"'), unread(tail))[1], "the tail to follow", tick=0.2)
    put(name, '"!"')
    seen = lines(tail, 1)
    while seen[-1] != b'"!"':
        seen += lines(tail, 1)
    return seen


def unread(tail: Tail) -> int:
    """Bytes that wait in the pipe."""
    assert tail.stdout is not None
    (count,) = struct.unpack("i", fcntl.ioctl(tail.stdout, termios.FIONREAD, b"\0" * 4))
    return int(count)


def test_whole_records_and_raw_lines(following: Start) -> None:
    put("a", '"x"', tag="t")
    whole, raw = following("a", "--records"), following("a", "--raw-lines")
    for seq in (1, 2):
        (line,) = lines(whole, 1)
        assert line.startswith(b'{"$seq":%d,' % seq)
        assert b'"$tag":"t"' in line
        assert lines(raw, 1) == [b"x"]
        put("a", '"x"', tag="t")
    put("a", "[1,\n\n2,\r\n3]")  # no raw line
    assert lines(whole, 2)[1].endswith(b'"data":[1,  2, 3]}')
    _, err = raw.communicate(timeout=DEADLINE)
    assert raw.returncode == 1
    assert b"leave out --raw-lines" in err


def test_it_goes_on_with_the_others_when_one_is_deleted(following: Start) -> None:
    put("one", "1")
    put("two", "2")
    tail = following("one", "two")
    assert lines(tail, 4) == [b"==> one <==", b"1", b"==> two <==", b"2"]
    delete_topic("one", False, now_ms())
    assert told(tail) == "topics: topic 'one' does not exist"
    put("two", "3")
    assert lines(tail, 1) == [b"3"]
    delete_topic("two", False, now_ms())
    out, err = tail.communicate(timeout=DEADLINE)
    assert (tail.returncode, out, err) == (1, b"", b"topics: topic 'two' does not exist\n")


def test_a_topic_that_is_created_again_is_followed_from_its_beginning(following: Start) -> None:
    put("one", "1")
    put("two", "2")
    tail = following("one", "two")
    assert lines(tail, 4) == [b"==> one <==", b"1", b"==> two <==", b"2"]
    delete_topic("one", False, now_ms())
    assert told(tail) == "topics: topic 'one' does not exist"
    put("one", "3")
    assert told(tail) == "topics: one was deleted and created again: it continues above seq 1"
    assert lines(tail, 2) == [b"==> one <==", b"3"]
    delete_topic("two", False, now_ms())
    assert told(tail) == "topics: topic 'two' does not exist"
    put("one", "4")
    assert lines(tail, 1) == [b"4"]


def test_topics_that_are_not_there_yet_are_waited_for(following: Start) -> None:
    put("live", "1")
    tail = following("live", "later")
    assert told(tail) == "topics: topic 'later' does not exist yet: waiting for it"
    assert lines(tail, 2) == [b"==> live <==", b"1"]
    put("later", "2", "3")
    assert told(tail) == "topics: later exists now"
    assert lines(tail, 3) == [b"==> later <==", b"2", b"3"]
    delete_topic("live", False, now_ms())
    assert told(tail) == "topics: topic 'live' does not exist"
    delete_topic("later", False, now_ms())
    assert told(tail) == "topics: topic 'later' does not exist"
    assert tail.wait(timeout=DEADLINE) == 1


def test_records_lost_before_they_could_be_printed_are_told(following: Start) -> None:
    put_topic("capped", Config(cap_records=2), now_ms())
    put("capped", "0")
    tail = following("capped")
    assert lines(tail, 1) == [b"0"]
    put("capped", "1", "2", "3", "4")
    assert told(tail) == "topics: capped lost records 2 to 3 (cap)"
    assert lines(tail, 2) == [b"3", b"4"]


def test_ctrl_c_ends_it_even_if_nobody_reads_what_it_prints(following: Start) -> None:
    put("a", "0")
    tail = following("a")
    assert lines(tail, 1) == [b"0"]
    put("a", *[f'"{"x" * 1000}"'] * 500)
    until(lambda: unread(tail) >= PIPE_BYTES, "the pipe to be full")
    tail.send_signal(signal.SIGINT)
    assert tail.wait(timeout=DEADLINE) == 130
    assert tail.stderr is not None
    assert tail.stderr.read() == b""


def test_a_closed_pipe_ends_it_quietly(following: Start) -> None:
    put("a", "0")
    tail = following("a")
    assert lines(tail, 1) == [b"0"]
    assert tail.stdout is not None
    assert tail.stderr is not None
    tail.stdout.close()
    put("a", "1")
    assert tail.wait(timeout=DEADLINE) == 141
    assert tail.stderr.read() == b""
    tail.stdout = None


def test_beside_a_server_whose_postgresql_and_redis_die(instances: Callable[..., Instance]) -> None:
    instance = instances(WEB_WORKERS="1")
    api, topics = Api(instance.port), ("a", "b")
    for name in topics:
        durable(api, name)
        api.append(name, f"{name} 0")
    argv = [sys.executable, str(ROOT / "manage.py"), "topics", "tail", "-f", "--raw-lines", *topics]
    with subprocess.Popen(argv, env=instance.environment, stdout=subprocess.PIPE) as tail:
        try:
            assert lines(tail, 4) == [b"==> a <==", b"a 0", b"==> b <==", b"b 0"]
            for number, kill in enumerate((kill_redis, kill_postgresql, kill_postgresql), 1):
                kill(instance)
                for name in topics:
                    append_again(api, name, f"{name} {number}", f"{name} {number}")
                assert sorted(records(tail, 2)) == [b"a %d" % number, b"b %d" % number]
        finally:
            tail.kill()


def kill_redis(instance: Instance) -> None:
    for pid in instance.pids("redis-server"):
        os.kill(pid, signal.SIGKILL)


def kill_postgresql(instance: Instance) -> None:
    pid = int((instance.data / "postgresql" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGQUIT)
    until(lambda: not Path(f"/proc/{pid}").exists(), "PostgreSQL to be gone")


def records(tail: Tail, count: int) -> list[bytes]:
    """So many lines that are no headings."""
    found: list[bytes] = []
    while len(found) < count:
        found += [line for line in lines(tail, 1) if not line.startswith(b"==> ")]
    return found
