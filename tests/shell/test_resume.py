"""`manage.py topics append` taken up again: after an abort, after a change of the file, after SIGKILL in the middle."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from shell.importing import Import
from shell.lines import LineRecord
from tests.crashes import take_back
from tests.deadlines import DEADLINE
from tests.instances import until
from tests.shell.conftest import Shell
from tests.shell.writing import put
from topics.models import IdempotencyKey, TopicHead

pytestmark = pytest.mark.deep


Start = Callable[..., "subprocess.Popen[bytes]"]


def numbers(first: int, last: int) -> bytes:
    return b"".join(b'{"n":%d}\n' % number for number in range(first, last + 1))


def test_the_same_command_again_appends_nothing(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(numbers(1, 25))
    shell("append", "a", file, "--batch", 10)
    done = shell("append", "a", file, "--batch", 10)
    assert "0 records appended to a" in done.err
    assert "25 lines appended before" in done.err
    assert shell("export", "a").out == file.read_bytes()


def test_it_goes_on_behind_the_last_batch_whatever_the_size_of_the_next(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(numbers(1, 20) + b"broken\n")
    done = shell("append", "a", file, "--batch", 5)
    assert done.code == 1
    assert "run the same command again" in done.err
    file.write_bytes(numbers(1, 40))
    assert "20 records appended" in shell("append", "a", file, "--batch", 7).err
    assert shell("export", "a").out == file.read_bytes()


def test_what_a_crash_took_back_is_told(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The crash comes between two batches: the last ten lines that were appended are no more."""
    file = tmp_path / "lines"
    file.write_bytes(numbers(1, 30))
    send = Import.send

    def crash_before_the_last(self: Import, records: list[LineRecord], lines: int) -> bool:
        if self.lines == 20:
            with connection.cursor() as cursor:
                take_back(cursor.execute, "a", 10)
        return send(self, records, lines)

    monkeypatch.setattr(Import, "send", crash_before_the_last)
    done = shell("append", "a", file, "--batch", 10)
    assert done.code == 1
    assert "a crash of the server took back lines 11 to 20 after the append (seqs from 11)" in done.err
    assert "run the same command again" not in done.err
    assert shell("export", "a").out == numbers(1, 10) + numbers(21, 30)


def test_other_writers_between_the_batches_do_no_harm(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(numbers(1, 20))
    send = Import.send

    def other_before(self: Import, records: list[LineRecord], lines: int) -> bool:
        put("a", "0")
        return send(self, records, lines)

    monkeypatch.setattr(Import, "send", other_before)
    assert shell("append", "a", file, "--batch", 10).code == 0


def test_only_the_last_key_has_to_be_remembered(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(numbers(1, 20))
    shell("append", "a", file, "--batch", 5)
    IdempotencyKey.objects.filter(last_seq__lt=20).delete()
    assert "0 records appended" in shell("append", "a", file, "--batch", 5).err


def test_a_key_out_of_its_window_no_longer_counts(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(numbers(1, 5))
    shell("append", "a", file)
    IdempotencyKey.objects.update(ts=1)
    assert "5 records appended" in shell("append", "a", file).err


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_file_that_grew_gives_its_new_lines(shell: Shell, tmp_path: Path, end: bytes) -> None:
    file = tmp_path / "lines"
    file.write_bytes(numbers(1, 5).rstrip() + end)
    shell("append", "a", file)
    file.write_bytes(numbers(1, 8))
    assert "3 records appended" in shell("append", "a", file).err
    assert shell("export", "a").out == numbers(1, 8)


def test_a_last_line_that_was_completed_is_another_file(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"1\n2")
    shell("append", "a", file)
    file.write_bytes(b"1\n23\n")
    assert "2 records appended" in shell("append", "a", file).err
    assert shell("export", "a").out == b"1\n2\n1\n23\n"


def test_a_changed_file_is_appended_whole(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(numbers(1, 5))
    shell("append", "a", file)
    file.write_bytes(numbers(2, 4))
    assert "3 records appended" in shell("append", "a", file).err


def test_another_key_another_tag_or_another_topic_is_another_run(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(numbers(1, 5))
    shell("append", "a", file)
    for arguments in [("a", file, "--idempotency-key", "again"), ("a", file, "--tag-field", "n"), ("b", file)]:
        assert "5 records appended" in shell("append", *arguments).err


def test_standard_input_with_a_key_is_taken_up_again(shell: Shell) -> None:
    shell("append", "a", "--idempotency-key", "k", stdin=numbers(1, 5))
    assert "4 records appended" in shell("append", "a", "--idempotency-key", "k", stdin=numbers(1, 9)).err
    done = shell("append", "a", "--idempotency-key", "k", stdin=numbers(4, 9))
    assert done.code == 1
    assert "use another --idempotency-key" in done.err
    assert shell("export", "a").out == numbers(1, 9)


def test_sigkill_in_the_middle_and_the_same_command_again(process: Start, tmp_path: Path) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "lines"
    file.write_bytes(numbers(1, 5000))
    os.mkfifo(pipe)
    # It reads from a pipe that gives only a part, so that it is surely in the middle when it is killed.
    first = process("append", "killed", pipe, "--batch", 100)
    with pipe.open("wb") as feed:
        feed.write(numbers(1, 2950))
        feed.flush()
        until(lambda: head_seq("killed") >= 2800, "most of the batches")
        first.kill()
        first.communicate(timeout=DEADLINE)
    assert head_seq("killed") < 5000
    pipe.unlink()
    file.rename(pipe)
    second = process("append", "killed", pipe, "--batch", 100)
    assert second.communicate(timeout=DEADLINE)[1].count(b"lines appended before") == 1
    assert second.returncode == 0
    out, _ = process("export", "killed").communicate(timeout=DEADLINE)
    assert out == numbers(1, 5000)


def head_seq(name: str) -> int:
    head = TopicHead.objects.filter(topic__name=name).first()
    return head.head_seq if head else 0
