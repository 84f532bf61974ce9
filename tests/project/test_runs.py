"""A run of the tests leaves nothing, however it ends (tests/runs.py)."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE
from tests.instances import ROOT, RUN_FOLDER, until
from tests.runs import ended, make, on_disk, processes_of, remove
from tests.shared_memory import NAMED_IN_LINE

pytestmark = pytest.mark.deep(126)


FILES = ("tests/api/test_append.py", "tests/api/test_diff.py")  # one for each of two processes


def begin(temporary: Path, *arguments: str, program: tuple[str, ...] = ("-m", "pytest")) -> subprocess.Popen[bytes]:
    """Begins a run of its own, as from a shell, since tests have changed our environment. `temporary`: its TMPDIR."""
    environment = {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}
    temporary.mkdir()
    with printed(temporary).open("wb") as output:
        return subprocess.Popen(
            [sys.executable, *program, "-q", *arguments],
            cwd=ROOT,
            env={**environment, "TMPDIR": str(temporary)},
            start_new_session=True,
            stdout=output,
            stderr=output,
        )


def printed(temporary: Path) -> Path:
    return temporary.with_suffix(".output")


def folder_of(run: subprocess.Popen[bytes]) -> Path | None:
    """Returns the folder of a run: that whose lock it has open for writing. It reads the locks of other runs, ours too."""
    with contextlib.suppress(OSError):
        for each in Path(f"/proc/{run.pid}/fd").iterdir():
            is_lock = re.fullmatch(r".*/topics-tests-[^/]*/lock", target := os.readlink(each))
            if is_lock and int(flags_of(run.pid, each.name), 8) & os.O_ACCMODE == os.O_WRONLY:
                return Path(target).parent
    return None


def flags_of(pid: int, descriptor: str) -> str:
    """Returns the flags with which a process has opened a file, in octal digits."""
    lines = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines()
    told = dict(line.partition(":")[::2] for line in lines)
    return told["flags"].strip()


def servers(folder: Path) -> list[Path]:
    """Returns postmaster.pid of each PostgreSQL of a run that accepts connections."""
    return [path for path in folder.glob("servers*/postgresql/postmaster.pid") if text(path).endswith("ready   \n")]


def text(path: Path) -> str:
    """Returns the content of a file, or "" if it is gone by now."""
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def shared(folder: Path) -> tuple[set[str], set[str]]:
    """Returns the ids of the segments of System V that its servers have, and the files in /dev/shm."""
    ids = {path.read_text().splitlines()[NAMED_IN_LINE].split()[1] for path in servers(folder)}
    maps = "".join(text(Path(f"/proc/{pid}/maps")) for pid in processes_of(folder, "postgres"))
    return ids, set(re.findall(r"/dev/shm/PostgreSQL\.\d+", maps))


def left(folder: Path, ids: set[str], files: set[str]) -> set[str]:
    """Returns what is there of the folder, of the segments with these ids, of these files, and of the run's processes."""
    segments = {row.split()[1] for row in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}
    return {*filter(os.path.exists, {str(folder), *files}), *(ids & segments), *map(str, processes_of(folder))}


def kill_whole(run: subprocess.Popen[bytes], folder: Path) -> None:
    """Kills all processes of a run as if at once: none of them sees another one die."""
    pids = {run.pid, *processes_of(folder)}
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    run.wait()
    until(lambda: not processes_of(folder), "the processes to end")


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    run = begin(tmp_path / "killed", "-n", "2", "--dist", "loadscope", *FILES)
    folder = until(lambda: folder_of(run), "the folder")
    until(lambda: len(servers(folder)) == 2, "the servers of both processes")
    ids, files = shared(folder)
    kill_whole(run, folder)
    assert len(ids) == 2
    assert len(files) >= 2
    assert left(folder, ids, files) == {str(folder), *ids, *files}, "a killed PostgreSQL leaves them"
    assert begin(tmp_path / "next", FILES[0], "-k", "it_works").wait(10 * DEADLINE) == 0, printed(
        tmp_path / "next"
    ).read_text()
    assert not left(folder, ids, files)
    assert os.listdir(tmp_path / "killed") == os.listdir(tmp_path / "next") == []


def test_a_run_that_ends_leaves_nothing(tmp_path: Path) -> None:
    run = begin(tmp_path / "tmp", "-n", "2", "--dist", "loadscope", *FILES, "-k", "it_works")
    folder = until(lambda: folder_of(run), "the folder")
    until(lambda: len(servers(folder)) == 2, "the servers of both processes")
    ids, files = shared(folder)
    assert run.wait(10 * DEADLINE) == 0, printed(tmp_path / "tmp").read_text()
    assert not left(folder, ids, files)
    assert os.listdir(tmp_path / "tmp") == []


def test_a_run_beside_a_long_tmpdir_has_short_paths(tmp_path: Path) -> None:
    """Without room in memory, and with paths of sockets behind those of the run."""
    long = tmp_path / ("long" * 10)
    without_memory = (
        "import sys, pytest, tests.runs as runs; runs.in_memory = lambda: None; sys.exit(pytest.main(sys.argv[1:]))"
    )
    run = begin(long, FILES[0], "-k", "it_works", program=("-c", without_memory))
    assert run.wait(10 * DEADLINE) == 0, printed(long).read_text()
    assert os.listdir(long) == []


def test_a_run_that_goes_on_keeps_its_folder() -> None:
    ours = Path(os.environ[RUN_FOLDER])
    assert ours not in ended()
    made, lock = make("bench", on_disk())
    assert made not in ended()
    lock.close()
    assert made in ended()
    remove(made)
