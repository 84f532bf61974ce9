"""`manage.py run`: up with one command, down with one signal, up again after any of its processes was killed."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.instances import ROOT, Instance, copy_migrated, free_port, is_free, until
from tests.preloaded import run
from tests.project.signing_in import ask, log_in

pytestmark = pytest.mark.deep(71)


@pytest.fixture(scope="module")
def instance(server: Instance) -> Instance:
    return server


def manage(instance: Instance, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Some other manage.py command on that instance's folder."""
    return run([sys.executable, str(ROOT / "manage.py"), *arguments], {**instance.environment, **settings})


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Instance]:
    """An instance that nobody has ever started."""
    instance = Instance(tmp_path / "data", free_port())
    yield instance
    instance.kill()


@pytest.fixture
def idle(new: Instance) -> Instance:
    """One that ran once and was stopped: what a first start makes, PostgreSQL's files above all, is there."""
    new.data.mkdir()
    copy_migrated(new.data)
    new.settings["WEB_WORKERS"] = "1"
    new.preloaded = True
    return new


def test_it_works(instance: Instance) -> None:
    assert instance.get("/v0/health")[0] == 200
    assert instance.get("/admin/login/")[0] == 200
    assert instance.get("/static/admin/css/base.css")[0] == 200


def test_broken_files_of_a_running_instance_end_nothing_and_the_next_start_mends_them(idle: Instance) -> None:
    idle.start()
    assert ask(idle, "PUT", "/v0/topics/mine", "{}", Content_Type="application/json").status == 201
    for name in ("servers.json", "database-password", "redis-password", "admin-password", "admin-password.checked"):
        (idle.data / name).write_bytes(b"\xff{")
    until(lambda: "database_url" in (idle.data / "servers.json").read_text(errors="replace"), "the guard's repair")
    assert idle.is_ready()
    assert idle.exited() is None
    assert "Traceback" not in idle.output
    assert idle.stop() == 0
    idle.start()
    assert idle.get("/v0/topics/mine")[0] == 200
    assert "with your own user and password" in idle.output


def test_it_prints_where_everything_is(instance: Instance) -> None:
    for word in (
        f"{instance.url}/docs/",
        f"{instance.url}/v0/docs",
        f"{instance.url}/admin/",
        str(instance.data),
        "user admin, password ",
    ):
        assert word in instance.output


def test_the_printed_login_opens_the_admin(instance: Instance) -> None:
    password = (instance.data / "admin-password").read_text().strip()
    assert password in instance.output
    assert (instance.data / "admin-password").stat().st_mode & 0o077 == 0
    assert log_in(instance, password).status == 302


def test_what_it_keeps_is_for_its_owner_only(new: Instance) -> None:
    """Also what a running instance writes, and what an earlier version left open to others."""
    new.data.mkdir()
    (new.data / "logs").mkdir(mode=0o700)
    (new.data / "logs" / "web.log").touch(0o644)
    new.start()
    assert ask(new, "PUT", "/v0/topics/mine", "{}", Content_Type="application/json").status == 201
    until(lambda: new.pids("-A topics_project.celery beat"), "beat")
    kept = {}
    for path in new.data.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # PostgreSQL removes files meanwhile
            kept[path] = path.lstat().st_mode
    kept.pop(new.data / "output")  # of the test's own shell
    shared = {str(path.relative_to(new.data)): oct(mode) for path, mode in kept.items() if mode & 0o077}
    assert shared == {}
    assert any(stat.S_ISSOCK(mode) for mode in kept.values())


def test_another_command_uses_the_running_servers(instance: Instance) -> None:
    before = instance.pids("-m embedded")
    assert manage(instance, "migrate", "--check").returncode == 0
    assert instance.pids("-m embedded") == before


def test_a_second_run_on_the_same_folder_is_refused(instance: Instance) -> None:
    refused = manage(instance, "run", PORT=str(free_port()))
    assert refused.returncode == 1
    assert refused.stderr == (
        f"topics: already running on {instance.data}: stop it, or set TOPICS_DATA to another folder.\n"
    )


def test_a_taken_port_is_refused(idle: Instance) -> None:
    with socket.create_server(("127.0.0.1", idle.port)):
        refused = manage(idle, "run")
    assert refused.returncode == 1
    assert refused.stderr == f"topics: port {idle.port} is in use: set PORT to another port.\n"
    assert not idle.pids()


def test_an_address_of_somebody_else_is_refused(idle: Instance) -> None:
    refused = manage(idle, "run", HOST="192.0.2.1", TOPICS_INSECURE="1")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"topics: cannot listen on 192.0.2.1, port {idle.port} (")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("locks/run", "{} is not usable (Is a directory): remove the file, or change its owner."),
        ("heartbeats.new", "{} is not usable (Is a directory): remove the file, or change its owner."),
        ("logs/web.log", "web did not start: Is a directory ({})."),
    ],
)
def test_a_folder_in_the_place_of_a_file_is_refused_in_one_line(idle: Instance, name: str, told: str) -> None:
    path = idle.data / name
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    refused = manage(idle, "run")
    assert (refused.returncode, refused.stderr) == (1, f"topics: {told.format(path)}\n")


def test_a_full_disk_is_told_in_one_line(idle: Instance) -> None:
    (idle.data / "heartbeats.new").symlink_to("/dev/full")
    refused = manage(idle, "run")
    told = "topics: the disk is full (a file of the data folder): free space.\n"
    assert (refused.returncode, refused.stderr) == (1, told)


def test_a_command_brings_its_own_servers_and_takes_them_down(new: Instance) -> None:
    done = manage(new, "migrate", "--verbosity", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert not new.pids()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_and_the_data_stays(idle: Instance, number: signal.Signals) -> None:
    idle.start()
    login = idle.output.split("password ")[1].split()[0]
    assert idle.stop(number) == 0
    assert not idle.pids()
    idle.start()
    assert login in idle.output
    idle.stop()


def test_under_nohup_it_outlives_its_terminal(idle: Instance) -> None:
    idle.command, idle.preloaded = ("nohup", *idle.command), False
    idle.start()
    assert idle.process is not None
    before = idle.pids("topics_project.web")
    idle.process.send_signal(signal.SIGHUP)
    os.kill(min(before), signal.SIGKILL)
    until(lambda: idle.exited() is not None or set(idle.pids("topics_project.web")) - set(before), "another web server")
    assert idle.exited() is None
    assert idle.stop() == 0


@pytest.mark.guarantee("S5")
@pytest.mark.parametrize("name", ["topics_project.web", "celery worker", "celery beat", "redis-server", "-m embedded"])
def test_a_dead_process_is_started_again(instance: Instance, name: str) -> None:
    name = name.replace("celery", "-A topics_project.celery")
    before = until(lambda: instance.pids(name), name)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    until(lambda: set(instance.pids(name)) - set(before), f"another {name}")
    until(instance.is_ready, "it to be ready")


def test_it_ends_when_its_servers_had_to_move(idle: Instance) -> None:
    idle.start()
    assert idle.process is not None
    port = int((idle.data / "redis-port").read_text())
    idle.process.send_signal(signal.SIGSTOP)  # or it would start the next guard before another program has the port
    os.kill(min(idle.pids("-m embedded")), signal.SIGKILL)
    until(lambda: is_free(port), "Redis to follow its guard")
    with socket.create_server(("127.0.0.1", port)):
        idle.process.send_signal(signal.SIGCONT)
        until(lambda: idle.exited() is not None, "its end")
    assert idle.exited() == 1
    assert "the embedded servers have another port or password than before: start again." in idle.output
    until(lambda: not idle.pids(), "its processes to follow")


@pytest.mark.guarantee("S5")
def test_after_kill_of_everything_it_starts_again(idle: Instance) -> None:
    idle.start()
    idle.kill()
    idle.start()
    assert idle.get("/v0/health")[0] == 200
    idle.stop()


def test_nothing_outlives_a_killed_supervisor(idle: Instance) -> None:
    idle.start()
    assert idle.process is not None
    idle.process.send_signal(signal.SIGKILL)
    idle.process.wait()
    until(lambda: not idle.pids(), "its processes to follow")


@pytest.mark.parametrize("name", ["topics_project.web", "celery worker", "celery beat"])
def test_nothing_outlives_a_supervisor_killed_while_it_starts(idle: Instance, name: str) -> None:
    """A signal other than SIGKILL may be lost on a process that has just begun."""
    idle.run()
    assert idle.process is not None
    name = name.replace("celery", "-A topics_project.celery")
    until(lambda: idle.pids(name), name, tick=0)
    idle.process.send_signal(signal.SIGKILL)
    idle.process.wait()
    until(lambda: not idle.pids(), "its processes to follow")


def test_web_workers_do_not_outlive_their_server(idle: Instance) -> None:
    """Both at once, so that nobody is left to clean up: a worker that stayed would keep the port."""
    idle.start()
    assert idle.process is not None
    main = min(until(lambda: idle.pids("topics_project.web"), "the web server"))
    idle.process.send_signal(signal.SIGKILL)
    os.kill(main, signal.SIGKILL)
    idle.process.wait()
    until(lambda: not idle.pids(), "its processes to follow")


def test_a_connection_waits_for_the_next_web_process(idle: Instance) -> None:
    """Instead of a refusal, while the only one is replaced."""
    idle.settings["TOPICS_PROCESSES"] = ""
    idle.start()
    main, worker = sorted(idle.pids("topics_project.web"))
    os.kill(worker, signal.SIGKILL)
    assert idle.get("/v0/health")[0] == 200
    assert main in idle.pids("topics_project.web")
    idle.stop()


def test_two_instances_run_side_by_side(instance: Instance, idle: Instance) -> None:
    idle.settings["TOPICS_PROCESSES"] = ""
    idle.start()
    assert idle.get("/v0/health")[0] == instance.get("/v0/health")[0] == 200
    assert idle.servers.database_url != instance.servers.database_url
    idle.stop()
    assert instance.get("/v0/health")[0] == 200


def test_one_process_alone_on_given_servers(instance: Instance, idle: Instance) -> None:
    """As docker-compose.yml runs them: `manage.py run web` becomes the web server."""
    idle.settings |= {
        "DATABASE_URL": instance.servers.database_url,
        "REDIS_URL": instance.servers.redis_url,
        "SECRET_KEY": "the same for every process of a site, and not to be guessed",
    }
    idle.run("web")
    until(idle.is_ready, "the web server")
    assert idle.stop() == 0


def test_one_process_alone_brings_no_servers(idle: Instance) -> None:
    refused = manage(idle, "run", "web")
    assert refused.returncode == 1
    assert refused.stderr.startswith("topics: run web starts no servers: set DATABASE_URL and REDIS_URL")
