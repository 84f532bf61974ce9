"""Real servers for the tests: PostgreSQL and Redis of the session for what runs in this process (pytest-django makes
its test database on them), and whole instances, as `make run` starts them, for what speaks HTTP (tests/instances.py).
"""

import contextlib
import filecmp
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import django
import hypothesis
import pytest
from django.conf import settings
from django.db import connection
from django.test import TransactionTestCase
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

import embedded
from tests.deadlines import DEADLINE
from tests.instances import ROOT, RUN_FOLDER, WHOLE, Instance, choose_ports, newest, start
from tests.runs import GIBIBYTE, Peak, available, begin_run

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts a background job with SIGINT ignored, and all processes of the job inherit that. But tests send SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The machine may be busy: how long an example takes says nothing, and a fixture may serve all examples of a test.
hypothesis.settings.register_profile("topics", deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile("topics")

# `make test` hands out a file at a time. The files of the bus go to one process, because they share its instances. So do the
# files of the pipeline, which share a Spark: each start of Spark and its first queries take 20 s of a core.
TOGETHER = ("pipeline", "push")
# The deep tests start instances, kill or freeze processes, migrate, move much data, wait, or need Spark, Chromium or other
# programs. A file of them says so with `pytestmark = pytest.mark.deep`, or with `deep(40)` if it takes 40 seconds: `make test`
# runs the longest first and the short ones last, so that no process has a long file at the end. All files of these folders are
# deep. `make test TESTS=fast` leaves deep files out, so that it ends within minutes.
DEEP_FOLDERS = ("clients", "crash", "deploy", "fuzz", "gateway", "kafka", "migrations", "pipeline", "project", "push")
DEEP = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.deep\b(?:\((\d+)\))?", re.MULTILINE)
PROCESS_BYTES = (
    5 * GIBIBYTE
)  # of memory, for a process of `make test`, its servers, and its files in memory: three had 14.3
REST_SECONDS = 20  # without a test that needs the shared instance, before it is stopped
KEPT = {"django_content_type", "auth_permission"}  # a migrated database holds these rows
_session = contextlib.ExitStack()
_peak = pytest.StashKey[Peak]()
_seconds: Counter[str] = Counter()  # of each file or folder that is handed out as one


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before pytest-django reads the settings: they need to know the servers.

    `make test` runs several processes (pytest-xdist). The one that hands the tests out makes the folder of the
    run, and starts nothing; each of the others starts servers of its own in there. So does a test run inside a test.
    """
    keep_bytecode()
    # All that a process loads stays. With Python's default, collections would walk through it again and again.
    gc.set_threshold(50_000, 20, 20)
    if RUN_FOLDER not in os.environ:
        folder = begin_run("tests")
        os.environ[RUN_FOLDER] = str(folder)
        # A short path: tests have sockets below it.
        config.option.basetemp = config.option.basetemp or folder / "t"
    if config.getoption("numprocesses", None):
        config.stash[_peak] = Peak()
        return
    data = tempfile.mkdtemp(prefix="servers", dir=os.environ[RUN_FOLDER])
    for name in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "TOPICS_API_KEYS", "TOPICS_INSECURE", "HOST", "PORT"):
        os.environ.pop(name, None)
    os.environ["TOPICS_DATA"] = data
    choose_ports(Path(data))
    # The newest there is, the wheel's, whatever the machine has; `make postgres` names others.
    os.environ.setdefault("TOPICS_POSTGRESQL", str(newest()))
    os.environ["DJANGO_SETTINGS_MODULE"] = "topics_project.settings"
    _session.enter_context(embedded.environment())
    django.setup()  # test modules import models, before pytest-django looks for settings
    # Each client of a test makes its own middleware, which would list all static files before its first request.
    settings.WHITENOISE_AUTOREFRESH = True
    TransactionTestCase._fixture_teardown = lambda self: empty_tables()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[group(report.nodeid)] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _peak in config.stash:
        longest = (f"{name} {seconds:.0f}" for name, seconds in _seconds.most_common(60))
        terminalreporter.write_line(f"The longest, in seconds: {', '.join(longest)}.")
        terminalreporter.write_line(f"The run had {config.stash[_peak]}.")


def keep_bytecode() -> None:
    """Lets Python keep what it has compiled, for the processes that the tests start (Makefile)."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_unconfigure() -> None:
    _session.close()


def empty_tables() -> None:
    """Truncates the tables that hold rows, after a test that commits.

    Django truncates every table and fills two of them again, which takes longer than most of these tests. Those two, the
    content types and the permissions, stay here.
    """
    with connection.cursor() as cursor:
        wanted = set(connection.introspection.django_table_names(only_existing=True, include_views=False)) - KEPT
        cursor.execute(" UNION ALL ".join(f"(SELECT '{name}' FROM {name} LIMIT 1)" for name in sorted(wanted)))
        if held := [name for (name,) in cursor.fetchall()]:
            cursor.execute(f"TRUNCATE {', '.join(held)} CASCADE")


def group(nodeid: str) -> str:
    """Returns what a test is handed out with: its file, or its folder if that is in TOGETHER."""
    path = Path(nodeid.partition("::")[0]).relative_to("tests")
    return path.parts[0] if path.parts[0] in TOGETHER else str(path)


@cache
def deep_seconds(path: Path) -> int | None:
    """Returns how long a deep test file says that it takes, 0 if it says nothing, or None for a file that is not deep."""
    if found := DEEP.search(path.read_text()):
        return int(found[1] or 0)
    return 0 if path.relative_to(ROOT / "tests").parts[0] in DEEP_FOLDERS else None


def place(path: Path) -> tuple[int, int]:
    """Returns the place of a file in the order of `make test`."""
    seconds = deep_seconds(path)
    if seconds is None:
        return (0, 0)
    folder = path.relative_to(ROOT / "tests").parts[0]
    return (1 + (TOGETHER.index(folder) if folder in TOGETHER else len(TOGETHER)), -seconds)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files with deep tests where `-m` does: each process would load Selenium, Schemathesis and pandas for them."""
    is_deep = collection_path.suffix == ".py" and deep_seconds(collection_path) is not None
    return True if config.option.markexpr == "not deep" and is_deep else None


class ByGroup(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a third of the time a test waits for what it has killed, frozen or asked for.

    Fewer if there is too little memory. Without it, the kernel would kill PostgreSQL or Spark in any test.
    """
    wanted = (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)) + 1
    most = max(1, int(available() / PROCESS_BYTES))
    if most < wanted:
        print(f"{most} processes instead of {wanted}: each needs {PROCESS_BYTES / GIBIBYTE:.1f} GiB of memory.")
    return min(wanted, most)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    return ByGroup(config, log)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what `-m` names
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the deep tests, and puts them last.

    A process alone keeps the order of pytest-django, which has tests that empty the database after all others.
    """
    for item in items:
        if deep_seconds(item.path) is not None and not item.get_closest_marker("deep"):
            item.add_marker("deep")
    if os.environ.get("PYTEST_XDIST_WORKER"):
        items.sort(key=lambda item: place(item.path))


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Iterator[None]:
    """A report travels to the process that hands the tests out. What cannot travel, such as half a pair of surrogates in a failed
    test, would end the whole run without a word about the test."""
    return sendable((yield))


def sendable(part: Any) -> Any:
    if isinstance(part, str):
        return part.encode(errors="backslashreplace").decode()
    if isinstance(part, dict):
        return {sendable(key): sendable(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return (list if isinstance(part, list) else tuple)(map(sendable, part))
    return part if part is None or type(part) in (bool, int, float) else repr(part)


class Shared:
    """The instance that tests share. It is stopped while no test needs it, because its workers and its servers take several
    percent of a core also at rest."""

    instance: Instance | None = None
    used = 0.0
    is_stopped = False

    def need(self) -> None:
        self.used = time.monotonic()
        if self.is_stopped:
            self.send(signal.SIGCONT)
            self.is_stopped = False

    def rest(self) -> None:
        if self.instance is not None and not self.is_stopped and time.monotonic() - self.used > REST_SECONDS:
            self.is_stopped = True
            self.send(signal.SIGSTOP)

    def send(self, number: signal.Signals) -> None:
        assert self.instance is not None
        for pid in self.instance.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


shared = Shared()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if "server" in getattr(item, "fixturenames", ()):
        shared.need()
    else:
        shared.rest()


@pytest.fixture(scope="session")
def server() -> Iterator[Instance]:
    """A whole running instance for everybody to share: use names of your own in it. No keys."""
    with start(**WHOLE) as instance:
        # A test run inside a test may have the instance of the run outside, which alone lets it rest.
        shared.instance = instance if instance.process is not None else None
        yield instance
        shared.instance = None


@pytest.fixture
def instances() -> Iterator[Callable[..., Instance]]:
    """`instances(TOPICS_API_KEYS="…")` starts one of your own, with those settings; it ends with the test.
    It is a web worker alone, unless settings (WHOLE, say) ask for more."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(start(**settings))


@pytest.fixture
def no_memory() -> None:
    """What this process remembers of topics is of another test, whose names may be the same."""
    from topics.cache import forget_all  # this file is read before Django is set up

    forget_all()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What is committed, with an environment in which everything is installed already."""
    if not (ROOT / ".git").exists():
        pytest.skip("NOT TRIED: this is no clone of a repository")
    made = tmp_path / "topics"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", made], check=True, timeout=2 * DEADLINE)
    (made / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (made / ".venv" / name).symlink_to(Path(sys.prefix) / name)
    for name in ("venv.stamp", "run.stamp", "shop.stamp"):
        (made / ".venv" / name).touch()
    copy_compiled(made)
    return made


def copy_compiled(clone: Path) -> None:
    """Gives a clone what Python has compiled here. To compile all of it takes 5 s of a core."""
    for source in clone.rglob("*.py"):
        ours = ROOT / source.relative_to(clone)
        kept = Path(cache_from_source(str(ours)))
        if kept.exists() and filecmp.cmp(ours, source, shallow=False):
            shutil.copystat(ours, source)  # by which Python knows what it has compiled
            made = Path(cache_from_source(str(source)))
            made.parent.mkdir(exist_ok=True)
            shutil.copy(kept, made)
