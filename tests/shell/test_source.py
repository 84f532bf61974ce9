"""The input of `topics append`: files as other programs write them."""

import gzip
import os
import pty
import sys
from pathlib import Path

import pytest

from shell.source import opened
from tests.shell.conftest import Shell

LINES = b'{"id": 1}\n[2, 3]\n"four"\n'
ARRAY = b'[{"id": 1},\n [2, 3],\r\n "four"\n]\n'


def put(folder: Path, name: str, content: bytes) -> Path:
    file = folder / name
    file.write_bytes(gzip.compress(content) if name.endswith((".gz", ".zipped")) else content)
    return file


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("lines.jsonl", LINES),
        ("lines.jsonl", b"\xef\xbb\xbf" + LINES),
        ("lines.jsonl.gz", LINES),
        ("called.anything.zipped", b"\xef\xbb\xbf" + LINES),
        ("array.json", ARRAY),
        ("array.json", b"\xef\xbb\xbf" + ARRAY),
        ("array.JSON.gz", ARRAY),
        ("lines.json", LINES),  # many programs call such a file so
    ],
)
def test_it_is_understood(shell: Shell, tmp_path: Path, name: str, content: bytes) -> None:
    file = put(tmp_path, name, content)
    assert "3 records appended to a" in shell("append", "a", file).err
    assert shell("export", "a").out == LINES
    done = shell("append", "a", file)  # taken up again, whatever it was
    assert (done.code, "0 records appended to a" in done.err, "3 " in done.err) == (0, True, True)


def test_in_latin_1_no_bytes_are_a_mark(shell: Shell) -> None:
    lines = "ï»¿ÿþ\n".encode("latin-1")
    assert shell("append", "a", "--raw-lines", "--encoding", "latin-1", stdin=lines).code == 0
    assert shell("export", "a", "--raw-lines", "--encoding", "latin-1").out == lines


def test_one_value_over_several_lines_is_one_record(shell: Shell, tmp_path: Path) -> None:
    assert shell("append", "a", put(tmp_path, "one.json", b'{\n  "id": 1\n}\n')).code == 0
    assert shell("export", "a").out == b'{   "id": 1 }\n'


def test_standard_input_is_an_array_where_it_is_called_one(shell: Shell) -> None:
    assert "3 records" in shell("append", "a", "--format", "array", stdin=ARRAY).err
    assert "1 record " in shell("append", "b", stdin=b"[1, 2]\n").err
    assert "2 records" in shell("append", "c", "--format", "array", stdin=gzip.compress(b"[1, 2]")).err


def test_a_file_that_is_called_json_is_lines_where_it_is_said(shell: Shell, tmp_path: Path) -> None:
    file = put(tmp_path, "one.json", b"[1, 2]\n")
    assert "1 record " in shell("append", "a", file, "--format", "lines").err
    assert "1 record " in shell("append", "b", file, "--raw-lines").err


@pytest.mark.parametrize(
    ("name", "content", "options", "told"),
    [
        ("a.json", b'[{"id": 1},\n{"id":', (), "invalid JSON array: "),
        ("a.json", b"17", ("--format", "array"), "invalid JSON array: expected [ at the start"),
        ("a.json", b"[1]", ("--format", "array", "--raw-lines"), "exclude each other"),
        ("a.jsonl", '{"id": 1}\n'.encode("utf-16"), (), "the input is UTF-16: convert it with `iconv"),
        ("a.jsonl", gzip.compress(b"1\n2\n", mtime=0)[:-12], (), "cannot unzip the file"),
        ("a.json", b'["\\ud800"]', (), "half a surrogate pair, \\ud800"),
    ],
)
def test_what_is_broken_is_told(
    shell: Shell, tmp_path: Path, name: str, content: bytes, options: tuple[str, ...], told: str
) -> None:
    done = shell("append", "a", put(tmp_path, name, content), *options)
    assert (done.code in (1, 2), told in done.err, "Traceback" in done.err) == (True, True, False)
    assert shell("ls", "-q").out == b""


def test_an_empty_array_appends_nothing(shell: Shell, tmp_path: Path) -> None:
    for content in (b"[]", b""):
        assert shell("append", "a", put(tmp_path, "a.json", content)).code == 0
    assert shell("ls", "-q").out == b""


def test_an_element_is_named_by_its_number(shell: Shell, tmp_path: Path) -> None:
    file = put(tmp_path, "a.json", b'[1, "%b", 3]' % (b"x" * (1024 * 1024)))
    assert "element 2 cannot be appended: " in shell("append", "a", file).err


@pytest.mark.parametrize(("text", "what"), [(False, "JSON, one value per line"), (True, "lines of text")])
def test_a_terminal_is_told_what_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: bool, what: str
) -> None:
    terminal, ours = pty.openpty()
    with os.fdopen(ours) as source:
        monkeypatch.setattr(sys, "stdin", source)
        os.write(terminal, b"17\n\x04")
        with opened("-", "auto", text) as found:
            assert found.file.readline() == b"17\n"
    os.close(terminal)
    assert capsys.readouterr().err == f"topics: type {what}. Ctrl-D ends the input, Ctrl-C cancels\n"


def test_a_pipe_is_told_nothing(shell: Shell) -> None:
    assert "Ctrl-D" not in shell("append", "a", stdin=b"1\n").err
