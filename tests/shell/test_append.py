"""`manage.py topics append`: JSON lines, raw lines, and refused lines."""

from pathlib import Path

import pytest
from django.db import connection

from tests.scripts import diff, put_topic
from tests.shell.conftest import Shell
from topics.config import Config
from topics.models import Record, Topic, TopicHead
from topics.read.diff import Diff

VERBATIM = [
    b"1.0",
    b"1e5",
    b"12345678901234567890",
    b'{"b" : 1,"a":2, "b":3}',
    rb'"\u0000 \u00e9 \/ \ud83d\ude00"',
    '"é 😀 中"'.encode(),
    b"null",
    b"[" * 128 + b"]" * 128,
]


def records(name: str) -> list[Record]:
    return list(Record.objects.filter(topic_id=Topic.objects.get(name=name).pk).order_by("seq"))


def test_it_appends_each_line_of_a_file_byte_for_byte(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"\n".join(VERBATIM) + b"\n")
    done = shell("append", "a", file)
    assert (done.code, done.out) == (0, b"")
    assert "8 records appended to a" in done.err
    assert [each.data.encode() for each in records("a")] == VERBATIM
    assert shell("export", "a").out == file.read_bytes()


def test_it_reads_standard_input_and_leaves_out_blank_lines(shell: Shell) -> None:
    assert shell("append", "a", stdin=b'\n {"x": 1} \r\n\n2').code == 0
    assert [each.data for each in records("a")] == ['{"x": 1}', "2"]
    assert shell("append", "a", "-", stdin=b"3\n").code == 0
    assert TopicHead.objects.get(topic__name="a").head_seq == 3


def test_standard_input_without_a_key_is_appended_each_time(shell: Shell) -> None:
    for _ in range(2):
        shell("append", "a", stdin=b"1\n")
    assert len(records("a")) == 2


def test_an_empty_file_appends_nothing_and_creates_nothing(shell: Shell) -> None:
    assert shell("append", "a").code == 0
    assert not Topic.objects.filter(name="a").exists()


def test_node_and_tag_field(shell: Shell) -> None:
    lines = b'{"kind":"x\\u00e9"}\n{"kind":7}\n{"kind":null}\n{"other":1}\n[1]\n'
    assert shell("append", "a", "--node", "n1", "--tag-field", "kind", stdin=lines).code == 0
    assert [each.tag for each in records("a")] == ["xé", "7", None, None, None]
    assert {each.node for each in records("a")} == {"n1"}


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_raw_lines_come_back_as_they_were(shell: Shell, tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "log"
    file.write_bytes('plain\n\n"quoted" \\ \t\r\n ü \x7f\n\x00\x01\n{"not": parsed\n'.encode(encoding))
    shell("append", "a", file, "--raw-lines", "--encoding", encoding)
    assert len(records("a")) == 6
    assert shell("export", "a", "--raw-lines", "--encoding", encoding).out == file.read_bytes()


def test_batches_of_a_size(shell: Shell) -> None:
    lines = b"".join(b"%d\n" % number for number in range(25))
    assert shell("append", "a", "--batch", 10, "--idempotency-key", "k", stdin=lines).code == 0
    assert [int(each.data) for each in records("a")] == list(range(25))
    with connection.cursor() as cursor:
        cursor.execute("SELECT first_seq, last_seq FROM topics_idempotencykey ORDER BY 1")
        assert cursor.fetchall() == [(1, 10), (11, 20), (21, 25)]


@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (("a b",), b"1\n", "invalid topic 'a b'"),
        (("a",), b'1\n{"x":\n', "line 2 is invalid: Input data was truncated"),
        (("a",), b"1\n\n1,2\n", "line 3 is invalid: JSON is malformed"),
        (("a",), b'"\xff"\n', "line 1 is invalid: it is not utf-8"),
        (("a", "--raw-lines"), b"\xff\n", "line 1 is invalid: it is not utf-8"),
        (("a", "--tag-field", "t"), b'{"t":{}}\n', "line 1 is invalid: expected a string or a number in the field 't'"),
        (("a", "--tag-field", "t"), b'{"t":"%b"}\n' % (b"x" * 257), "257 bytes"),
        (("a", "--node", "n" * 129), b"1\n", "129 bytes"),
        (("a", "--no-create"), b"1\n", "topic 'a' does not exist"),
        (("a", "/nowhere/file"), b"", "/nowhere/file: No such file or directory"),
    ],
)
def test_it_refuses_in_one_line(shell: Shell, arguments: tuple[str, ...], stdin: bytes, told: str) -> None:
    done = shell("append", *arguments, stdin=stdin)
    assert done.code == 1
    assert told in done.err.splitlines()[-1]
    assert "Traceback" not in done.err
    assert not Topic.objects.exists()


def test_a_bad_line_leaves_what_was_appended_before_it(shell: Shell) -> None:
    done = shell("append", "a", "--batch", 2, stdin=b"1\n2\n3\n4\nfive\n")
    assert done.code == 1
    assert "4 records appended to a" in done.err
    assert "run the same command again" not in done.err  # without a key it does not
    assert len(records("a")) == 4


def test_a_record_that_is_too_large_is_named_by_its_line(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(b'1\n"%b"\n' % (b"x" * (1024 * 1024)))
    done = shell("append", "a", file)
    assert done.code == 1
    assert "line 2" in done.err
    file.write_bytes(b"x" * 65 * 1024 * 1024)
    done = shell("append", "a", file)
    assert done.code == 1
    assert "a line is longer than 64 MiB" in done.err


def test_a_full_topic_refuses(shell: Shell) -> None:
    put_topic("full", Config(cap_records=3, discard="reject"), 1)
    done = shell("append", "full", "--batch", 2, stdin=b"1\n2\n3\n4\n")
    assert done.code == 1
    assert "'full' has no room: 2 of at most 3 records" in done.err
    assert diff("full", Diff(), 1).head_seq == 2


@pytest.mark.parametrize("batch", ["0", "10001", "x", "-1"])
def test_a_batch_out_of_range_is_refused(shell: Shell, batch: str) -> None:
    done = shell("append", "a", "--batch", batch)
    assert (done.code, "--batch" in done.err) == (2, True)
