"""The folder in which the processes of `run web` add up their counts: one for each run, and a bounded number of files."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.clients import HttpClient
from tests.api.test_metrics import samples
from tests.instances import Instance, free_port, until
from topics_project.counts_folder import PREFIX

pytestmark = pytest.mark.deep


Run = Callable[[str], Instance]
APPENDED = ("topics_appended_records_total", ())


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def run(server: Instance, tmp_path: Path, temporary: Path) -> Iterator[Run]:
    """Starts `run web` on the servers of `server`. Each run has another name, and all have one folder of temporary files."""
    given = {"DATABASE_URL": server.servers.database_url, "REDIS_URL": server.servers.redis_url}
    shared = {"SECRET_KEY": server.secret, "WEB_WORKERS": "1", "TMPDIR": str(temporary)}
    with contextlib.ExitStack() as ends:

        def start(name: str) -> Instance:
            begun = Instance(tmp_path / name, free_port(), given | shared)
            ends.callback(begun.kill)
            begun.run("web")
            until(begun.is_ready, "the web server")
            return begun

        yield start


def folders(temporary: Path) -> set[Path]:
    return set(temporary.glob(f"{PREFIX}*"))


def test_a_start_removes_the_folders_of_killed_runs_alone(run: Run, temporary: Path) -> None:
    running = run("running")
    (kept,) = folders(temporary)
    killed = run("killed")
    assert samples(HttpClient(killed.port))
    killed.kill()
    (abandoned,) = folders(temporary) - {kept}
    assert list(abandoned.glob("*.db"))
    later = run("later")
    assert kept in folders(temporary)
    assert abandoned not in folders(temporary)
    assert len(folders(temporary)) == 2
    assert samples(HttpClient(running.port))
    assert later.stop() == running.stop() == 0
    assert folders(temporary) == set()


def test_a_process_continues_the_file_of_the_process_before(run: Run, temporary: Path) -> None:
    web = run("web")
    (folder,) = folders(temporary)
    main = min(web.pids("topics_project.web"))
    for appended in range(1, 4):
        HttpClient(web.port).append("replaced", "x")
        assert samples(HttpClient(web.port))[APPENDED] == appended
        (worker,) = set(web.pids("topics_project.web")) - {main}
        os.kill(worker, signal.SIGKILL)
        until(lambda: set(web.pids("topics_project.web")) - {main, worker}, "another process")  # noqa: B023
    assert samples(HttpClient(web.port))[APPENDED] == 3
    assert len(list(folder.glob("*.db"))) == 1
