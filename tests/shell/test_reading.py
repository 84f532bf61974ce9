"""`manage.py topics tail`, `export` and `ls`: their output and their exit codes."""

import json
import subprocess
from collections.abc import Callable

import pytest
from django.db import connection

from base.clock import now_ms
from routers.routers import RouterConfig
from tests.crashes import take_back
from tests.deadlines import DEADLINE
from tests.scripts import delete_records, delete_topic, put_router, put_topic
from tests.shell.conftest import Shell
from tests.shell.writing import put
from topics.config import Config

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def numbers(db: None) -> str:
    for first in range(1, 2501, 500):
        put("numbers", *map(str, range(first, first + 500)))
    return "numbers"


def test_export_prints_everything_in_order(shell: Shell, numbers: str) -> None:
    assert shell("export", numbers).out == b"".join(b"%d\n" % n for n in range(1, 2501))
    assert shell("export", numbers, "--from-seq", 2498).out == b"2499\n2500\n"


def test_whole_records(shell: Shell, db: None) -> None:
    put("a", '{"x":1.0}', tag="t")
    for call in ("export", "tail"):
        (line,) = shell(call, "a", "--records").out.splitlines()
        record = json.loads(line)
        assert record.pop("$ts") > 0
        assert record == {"$seq": 1, "$tag": "t", "data": {"x": 1.0}}


def test_a_value_of_several_lines_is_one_line(shell: Shell, db: None) -> None:
    put("a", '{"x":\n 1,\r\n"y": "\\n"}')
    assert shell("export", "a").out == b'{"x":  1,  "y": "\\n"}\n'
    assert len(shell("export", "a", "--records").out.splitlines()) == 1


def test_a_record_that_is_no_raw_line_is_refused(shell: Shell, db: None) -> None:
    put("a", "17")
    done = shell("export", "a", "--raw-lines")
    assert done.code == 1
    assert "leave out --raw-lines" in done.err
    put("b", '"中"')
    assert (
        "data has a character that latin-1 cannot write"
        in shell("export", "b", "--raw-lines", "--encoding", "latin-1").err
    )


def test_tail_prints_the_last_ones(shell: Shell, numbers: str) -> None:
    assert shell("tail", numbers).out == b"".join(b"%d\n" % n for n in range(2491, 2501))
    assert shell("tail", numbers, "-n", 2).out == b"2499\n2500\n"
    assert shell("tail", numbers, "-n", 0).out == b""
    assert shell("tail", numbers, "-n", 2400).out.count(b"\n") == 2400
    assert shell("tail", numbers, "-n", 99999).out.count(b"\n") == 2500


def test_tail_looks_further_back_where_records_were_deleted(shell: Shell, numbers: str) -> None:
    put(numbers, *["0"] * 50, tag="gone")
    delete_records(numbers, None, "gone", now_ms())
    assert shell("tail", numbers, "-n", 2).out == b"2499\n2500\n"


def test_only_matches(shell: Shell, numbers: str) -> None:
    put(numbers, '"a"', '"b"', tag="order:1")
    put(numbers, '"c"', tag="order:2")
    glob = '["tag", "Glob", "order:*"]'
    assert shell("tail", numbers, "--match", "order:1").out == b'"a"\n"b"\n'
    assert shell("tail", numbers, "-n", 2, "--match", glob).out == b'"b"\n"c"\n'
    assert shell("export", numbers, "--match", glob).out == b'"a"\n"b"\n"c"\n'
    assert shell("export", numbers, "--match", "none").out == b""
    for call in "tail", "export", "trim":
        done = shell(call, numbers, "--match", "order:*")
        assert done.code == 2
        assert "--match order:* can mean a prefix or a tag" in done.err


def test_several_topics_get_headings(shell: Shell, db: None) -> None:
    put("a", "1")
    put("b", "2", "3")
    assert shell("tail", "a", "b").out == b"==> a <==\n1\n==> b <==\n2\n3\n"


def test_lost_records_are_told_beside_the_lines(shell: Shell, db: None) -> None:
    put_topic("capped", Config(cap_records=2), now_ms())
    put("capped", "1", "2", "3")
    done = shell("export", "capped")
    assert (done.code, done.out) == (0, b"2\n3\n")
    assert "capped lost records 1 to 1 (cap)" in done.err


@pytest.mark.parametrize("call", ["tail", "export"])
def test_an_absent_topic_is_refused_in_one_line(shell: Shell, call: str) -> None:
    done = shell(call, "nobody")
    assert (done.code, done.out, done.err) == (1, b"", "topics: topic 'nobody' does not exist")


def test_an_empty_topic_prints_nothing(shell: Shell, db: None) -> None:
    put_topic("empty", Config(), now_ms())
    assert shell("export", "empty").out == shell("tail", "empty").out == b""


def test_ls_by_prefix(shell: Shell, db: None) -> None:
    for name in ("a:1", "a:2", "A", "b", "a_"):
        put(name, "1", "22")
    lines = shell("ls", "a").out.decode().splitlines()
    assert lines[0].split() == ["RECORDS", "BYTES", "EARLIEST", "HEAD", "FSYNC", "NAME"]
    assert [line.split() for line in lines[1:]] == [["2", "3", "1", "2", "no", name] for name in ("a:1", "a:2", "a_")]
    assert shell("ls", "-q").out.split() == [b"A", b"a:1", b"a:2", b"a_", b"b"]
    assert shell("ls", "a_", "-q").out.split() == [b"a_"]
    assert shell("ls", "nobody", "-q").out == b""


def test_an_export_of_what_a_crash_took_back_is_refused(shell: Shell, db: None) -> None:
    put("a", *map(str, range(1, 6)))
    with connection.cursor() as cursor:
        take_back(cursor.execute, "a", 3)
    put("a", "6")
    done = shell("export", "a", "--from-seq", 5)
    assert (done.code, done.out) == (1, b"")
    assert "from seq 4 on, which were exported: drop them and export from seq 3" in done.err
    assert shell("export", "a", "--from-seq", 3).out == b"6\n"
    assert shell("export", "a").out == b"1\n2\n3\n6\n"


def test_usage_says_what_is_held_and_by_what(shell: Shell, db: None) -> None:
    put("a", *["1"] * 10)
    put_router("a->b", RouterConfig(source="a", dest="b", start="earliest"), now_ms())
    shell("tail", "b")
    delete_topic("a", False, now_ms())
    put("c", "1")
    done = shell("usage")
    assert done.code == 0
    lines = [" ".join(line.split()) for line in done.out.decode().splitlines()]
    assert "11 records shown by topics, 11 B of payload" in lines
    assert "10 records of a (deleted) are kept for b" in lines


def test_a_closed_pipe_ends_an_export_quietly(process: Start) -> None:
    for _ in range(20):
        put("long", *[f'"{"x" * 100}"'] * 2000)
    export = process("export", "long")
    assert export.stdout is not None
    assert export.stdout.readline()
    export.stdout.close()
    assert export.stderr is not None
    assert export.wait(timeout=DEADLINE) == 141
    assert export.stderr.read() == b""
    export.stderr.close()
