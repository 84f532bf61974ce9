"""`topics append` and lines that are no records: shown with their number, and with `--skip-bad` put aside."""

from pathlib import Path

import pytest

from tests.shell.conftest import Shell

LARGE = b'"%b"' % (b"x" * (1024 * 1024))
BAD = [b"not json", b'"\\ud800"', LARGE, b'{"tag": "%b"}' % (b"t" * 300), b"\xff", b'{"tag": []}']


def mixed() -> bytes:
    """Each bad line between good ones."""
    return b"".join(b'{"id": %d}\n%b\n' % (number, line) for number, line in enumerate(BAD)) + b'{"id": "last"}\n'


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_a_bad_line_is_shown_with_its_number(either: Shell, name: str, line: bytes) -> None:
    done = either("append", name, "--tag-field", "tag", stdin=b'1\n{"tag": "x"}\n\n%b\n5\n' % line[:40_000])
    if line is LARGE:  # more than a pipe holds: it is cut, and so is no JSON
        assert "line 4 is invalid: Input data was truncated" in done.err
    assert done.code == 1
    *_, last = done.err.splitlines()
    assert last.startswith("topics: line 4 ")
    assert len(last) < 300


def test_what_is_wrong_with_the_topic_or_the_node_is_no_lines_fault(either: Shell, name: str, tmp_path: Path) -> None:
    file, skipped = tmp_path / "lines", tmp_path / "skipped"
    file.write_bytes(b"1\n2\n")
    for arguments, told in [(("a b",), "invalid topic"), ((name, "--node", "n" * 129), "129 bytes")]:
        done = either("append", *arguments, file, "--skip-bad", skipped)
        assert (done.code, told in done.err, "line " in done.err) == (1, True, False)
    assert skipped.read_bytes() == b""


@pytest.mark.parametrize("batch", [1, 4, 1000])
def test_bad_lines_are_skipped_and_kept(either: Shell, name: str, tmp_path: Path, batch: int) -> None:
    file, skipped = tmp_path / "lines", tmp_path / "skipped"
    file.write_bytes(mixed())
    command = ("append", name, file, "--tag-field", "tag", "--batch", batch, "--skip-bad", skipped)
    done = either(*command)
    assert done.code == 0
    assert f"7 records appended to {name}" in done.err
    assert f"6 lines skipped, see {skipped}" in done.err
    assert [f"topics: line {number} " in done.err for number in range(1, 14)] == [False, True] * 6 + [False]
    assert sorted(skipped.read_bytes().splitlines()) == sorted(BAD)
    assert either("export", name).out == b"".join(b'{"id": %d}\n' % n for n in range(6)) + b'{"id": "last"}\n'
    again = either(*command)
    assert (again.code, "0 records appended" in again.err) == (0, True)
    assert len(skipped.read_bytes().splitlines()) == 6


def test_only_the_first_few_are_shown(shell: Shell, tmp_path: Path) -> None:
    skipped = tmp_path / "skipped"
    done = shell("append", "a", "--skip-bad", skipped, stdin=b"bad\n" * 50)
    assert done.err.count(" is invalid: ") == 10
    assert "(further invalid lines are not shown)" in done.err
    assert skipped.read_bytes().count(b"bad\n") == 50


def test_what_an_interrupted_run_skipped_stays(shell: Shell, tmp_path: Path) -> None:
    file, skipped = tmp_path / "lines", tmp_path / "skipped"
    file.write_bytes(b"bad 1\n1\n")
    shell("append", "a", file, "--skip-bad", skipped)
    file.write_bytes(b"bad 1\n1\nbad 2\n2\n")
    assert "1 record appended" in shell("append", "a", file, "--skip-bad", skipped).err
    assert skipped.read_bytes() == b"bad 1\nbad 2\n"


def test_the_file_that_is_read_is_not_written_to(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"1\n")
    done = shell("append", "a", file, "--skip-bad", tmp_path / ".." / tmp_path.name / "lines")
    assert (done.code, file.read_bytes()) == (2, b"1\n")
