"""The embedded servers: shared by their users, gone with the last one, whole again after any kill."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg.conninfo import conninfo_to_dict

import embedded
from base.locks import is_locked
from embedded.folder import LONGEST_SOCKET_PATH, data_dir, processes_in
from tests.instances import ROOT, until
from tests.processes import child_process
from tests.runs import remove

pytestmark = pytest.mark.deep(89)


HOLD = """
import sys
import embedded
from pathlib import Path
with embedded.use(Path(sys.argv[1])) as servers:
    print(servers.database_url, flush=True)
    sys.stdin.read()
"""


Running = tuple[Path, embedded.Servers]


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Path]:
    """A folder for a first start."""
    folder = tmp_path / "data"
    yield folder
    # Whatever the test left alive goes the hard way: nothing of it is needed any more.
    kill_all(folder)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose servers ran once: the table `kept` holds 7, and Redis has a snapshot with `hint`."""
    folder = tmp_path_factory.mktemp("stopped")
    with embedded.use(folder) as servers, psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        redis.Redis.from_url(servers.redis_url).set("hint", "1")
    return folder


@pytest.fixture
def data(new: Path, stopped: Path) -> Path:
    """A copy of `stopped`. A start in it does not create a cluster first, which takes most of a first start."""
    subprocess.run(["cp", "-a", stopped, new], check=True)  # PostgreSQL's files keep their owner
    return new


@pytest.fixture(scope="module")
def running(stopped: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A folder whose servers run, for tests that only look at them."""
    data = tmp_path_factory.mktemp("running") / "data"
    subprocess.run(["cp", "-a", stopped, data], check=True)
    with embedded.use(data) as servers:
        yield data, servers


def guards(data: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if b"embedded" in words and os.fsencode(data) in words:
                found.append(int(entry.parent.name))
    return found


@contextlib.contextmanager
def another_user(data: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that uses the servers until its standard input ends."""
    argv = [sys.executable, "-c", HOLD, str(data)]
    with child_process(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as user:
        assert user.stdout is not None
        user.stdout.readline()
        yield user


def value(servers: embedded.Servers, statement: str) -> object:
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        row = connection.execute(statement).fetchone()
        return row[0] if row else None


def answers(servers: embedded.Servers) -> bool:
    with contextlib.suppress(psycopg.OperationalError, redis.ConnectionError):
        return value(servers, "SELECT 1") == 1 and bool(redis.Redis.from_url(servers.redis_url).ping())
    return False


def gone(data: Path) -> bool:
    return not is_locked(data / "locks" / "guard") and not any(processes_in(data / n) for n in ("postgresql", "redis"))


def kill_all(data: Path) -> None:
    for pid in guards(data) + processes_in(data / "postgresql") + processes_in(data / "redis"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_it_works(new: Path) -> None:
    with embedded.use(new) as servers:
        assert str(value(servers, "SHOW server_version")).startswith("18.")
        assert redis.Redis.from_url(servers.redis_url).ping()
        assert embedded.running(new) == servers
    assert gone(new)
    assert embedded.running(new) is None


def test_jdbc_url_is_loopback_tcp_with_the_password(running: Running) -> None:
    _, servers = running
    url = servers.jdbc_url.removeprefix("jdbc:")
    with psycopg.connect(url, user=servers.jdbc_user, password=servers.jdbc_password) as connection:
        assert connection.info.host == "127.0.0.1"
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url, user=servers.jdbc_user, password="wrong")


def test_an_acked_commit_is_flushed_and_whole_pages_are_kept(running: Running) -> None:
    _, servers = running
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        assert value(servers, f"SHOW {setting}") == "on"


def test_the_site_is_no_superuser_but_may_make_databases_and_roles(running: Running) -> None:
    _, servers = running
    flags = "SELECT (rolsuper, rolcreatedb, rolcreaterole)::text FROM pg_roles WHERE rolname = current_user"
    assert value(servers, flags) == "(f,t,t)"


def test_secrets_are_for_their_owner_only(running: Running) -> None:
    data, _ = running
    for name in ("database-password", "redis-password", "servers.json", "redis/redis.conf"):
        assert (data / name).stat().st_mode & 0o077 == 0, name


def test_two_users_at_once_share_one_start(data: Path) -> None:
    with another_user(data), embedded.use(data):
        assert len(guards(data)) == 1


def test_servers_stay_until_the_last_user_has_left(data: Path) -> None:
    with another_user(data) as user:
        with embedded.use(data):
            pass
        assert embedded.running(data) is not None
        assert user.stdin is not None
        user.stdin.close()
        until(lambda: gone(data), "the servers to stop")


def test_a_killed_user_counts_as_left(data: Path) -> None:
    with another_user(data) as user:
        user.kill()
        until(lambda: gone(data), "the servers to stop")


def test_data_and_urls_survive_a_restart(data: Path) -> None:
    with embedded.use(data) as first, psycopg.connect(first.database_url, autocommit=True) as connection:
        connection.execute("UPDATE kept SET n = 8")
    with embedded.use(data) as second:
        assert value(second, "SELECT n FROM kept") == 8
        assert second.jdbc_password == first.jdbc_password


def test_after_kill_of_everything_the_next_start_recovers(data: Path) -> None:
    with embedded.use(data) as servers, psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute("UPDATE kept SET n = 8")
        kill_all(data)
    with embedded.use(data) as servers:
        assert value(servers, "SELECT n FROM kept") == 8


def test_servers_go_with_a_killed_guard(data: Path) -> None:
    with embedded.use(data):
        (guard,) = guards(data)
        os.kill(guard, signal.SIGKILL)
        until(lambda: gone(data), "the servers to follow their guard")
        assert embedded.running(data) is None
        assert value(embedded.ensure(data), "SELECT 1") == 1


@pytest.mark.parametrize("folder", ["postgresql", "redis"])
def test_the_guard_starts_a_dead_server_again_where_it_was(data: Path, folder: str) -> None:
    with embedded.use(data) as servers:
        for pid in processes_in(data / folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: answers(servers), f"{folder} to answer at its old address")


def test_a_backend_that_hangs_keeps_a_dead_server_from_no_start(data: Path) -> None:
    with embedded.use(data) as servers:
        with psycopg.connect(servers.database_url) as connection:
            os.kill(connection.info.backend_pid, signal.SIGSTOP)
            os.kill(int((data / "postgresql" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
            connection.close()
        until(lambda: answers(servers), "PostgreSQL to answer again")
        assert value(servers, "SELECT n FROM kept") == 7


def test_a_half_finished_first_start_is_begun_anew(new: Path) -> None:
    (new / "postgresql.new" / "base").mkdir(parents=True)
    (new / "postgresql.new" / "PG_VERSION").write_text("18\n")
    with embedded.use(new) as servers:
        assert value(servers, "SELECT 1") == 1


def test_a_stale_pid_file_with_a_living_number_is_no_obstacle(data: Path) -> None:
    with embedded.use(data):
        pid_file = (data / "postgresql" / "postmaster.pid").read_text()
    _, *rest = pid_file.splitlines()
    (data / "postgresql" / "postmaster.pid").write_text("\n".join([str(os.getppid()), *rest]) + "\n")
    with embedded.use(data) as servers:
        assert value(servers, "SELECT 1") == 1


def test_a_process_that_has_the_number_of_the_pid_file_gets_no_signal(data: Path) -> None:
    """It is in this folder, too, as an operator's shell can be, and a PostgreSQL is left of the run that was killed."""
    kill_postmaster(data)
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with child_process(argv, stdin=subprocess.PIPE, cwd=data / "postgresql") as other:
        (data / "postgresql" / "postmaster.pid").write_text(f"{other.pid}\n")
        with embedded.use(data) as servers:
            assert value(servers, "SELECT n FROM kept") == 7
        assert other.poll() is None


def test_an_orphaned_backend_that_hangs_is_ended(data: Path) -> None:
    orphan = kill_postmaster(data)
    assert orphan in processes_in(data / "postgresql")
    with embedded.use(data) as servers:
        assert value(servers, "SELECT n FROM kept") == 7
        assert orphan not in processes_in(data / "postgresql")


def kill_postmaster(data: Path) -> int:
    """Kills the guard, its servers and PostgreSQL with SIGKILL, except one backend that hangs. Returns the backend."""
    with embedded.use(data) as servers, psycopg.connect(servers.database_url) as connection:
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        for pid in guards(data) + processes_in(data / "postgresql") + processes_in(data / "redis"):
            if pid != backend:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        until(lambda: processes_in(data / "postgresql") == [backend], "all others to end")
        connection.close()
    return backend


def test_taken_ports_are_replaced(data: Path) -> None:
    with embedded.use(data) as first:
        port = int((data / "postgresql-port").read_text())
    with socket.create_server(("127.0.0.1", port)), embedded.use(data) as second:
        assert second.jdbc_url != first.jdbc_url
        assert value(second, "SELECT 1") == 1


def test_a_long_path_gets_its_socket_elsewhere(new: Path) -> None:
    long = new / ("x" * LONGEST_SOCKET_PATH)
    with embedded.use(long) as servers:
        assert value(servers, "SELECT 1") == 1
        assert sockets_of(servers).parent == Path("/tmp")
    assert not sockets_of(servers).exists()


def test_a_killed_one_leaves_no_socket_elsewhere_to_the_next_run(new: Path) -> None:
    long = new / ("x" * LONGEST_SOCKET_PATH)
    with embedded.use(long) as servers:
        remove(long)
    assert not sockets_of(servers).exists()


def sockets_of(servers: embedded.Servers) -> Path:
    return Path(str(conninfo_to_dict(servers.database_url)["host"]))


def test_a_folder_that_others_may_not_enter(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with embedded.use(closed / "data") as servers:
        assert value(servers, "SELECT 1") == 1


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SystemExit, match=r"is not usable.*set TOPICS_DATA"), embedded.use(tmp_path / "file" / "data"):
        pass


def test_a_broken_cluster_is_told_in_one_line(data: Path) -> None:
    shutil.rmtree(data / "postgresql" / "global")
    with pytest.raises(SystemExit, match=r"PostgreSQL did not start: .*pg_control.*postgresql.log"), embedded.use(data):
        pass


BROKEN = [b"", b"{", b"\xff\0\xfe garbage ' \" @/", b"[]", b"{}"]


def test_the_guard_repairs_the_file_that_says_where_its_servers_are(data: Path) -> None:
    with embedded.use(data) as servers:
        for content in BROKEN:
            (data / "servers.json").write_bytes(content)
            assert embedded.ensure(data) == servers
            assert len(guards(data)) == 1
            (data / "servers.json").unlink()
            until(lambda: embedded.running(data) == servers, "the file to be written again")


@pytest.mark.parametrize("content", BROKEN[:3])
def test_files_that_were_broken_are_made_again_and_the_data_stays(data: Path, content: bytes) -> None:
    for name in ("database-password", "redis-password", "postgresql-port", "redis-port", "servers.json"):
        assert (data / name).exists() or name == "servers.json"  # a guard that stops removes it
        (data / name).write_bytes(content)
    with embedded.use(data) as servers:
        assert value(servers, "SELECT n FROM kept") == 7
        assert redis.Redis.from_url(servers.redis_url).ping()


@pytest.mark.parametrize("content", BROKEN[:3])
def test_a_snapshot_that_redis_cannot_read_is_put_aside(data: Path, content: bytes) -> None:
    (snapshot,) = (data / "redis").glob("dump-*.rdb")
    snapshot.write_bytes(content)
    with embedded.use(data) as servers:
        assert redis.Redis.from_url(servers.redis_url).get("hint") is None
    assert snapshot.with_name(f"{snapshot.name}.broken").read_bytes() == content


@pytest.mark.parametrize(
    "name",
    [
        "database-password",
        "redis-password",
        "postgresql-port",
        "servers.json",
        "locks/guard",
        "locks/users",
        "logs/embedded.log",
        "redis/redis.conf",
    ],
)
def test_a_folder_in_the_place_of_a_file_is_refused_in_one_line(new: Path, name: str) -> None:
    (new / name).mkdir(parents=True)
    with pytest.raises(SystemExit) as refused, embedded.use(new):
        pass
    assert str(new / name) in str(refused.value)
    assert "remove the file, or change its owner." in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_version_that_is_none_is_refused_in_one_line(data: Path) -> None:
    (data / "postgresql" / "PG_VERSION").write_bytes(b"\xff")
    with pytest.raises(SystemExit, match="the data is damaged"), embedded.use(data):
        pass


def test_the_folder_is_beside_manage_py_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPICS_DATA", "/somewhere/else")
    assert data_dir() == Path("/somewhere/else")
    monkeypatch.delenv("TOPICS_DATA")
    assert data_dir() == ROOT / ".data"
