"""Instances that begin with the libraries loaded.

A run of the tests starts some three hundred instances. Of the two seconds of a core that a start takes, more than one goes
into loading Django, Celery and what they need. Here that is done once a process of the run: instances are forks of a server
(multiprocessing's), which has loaded libraries, those modules of ours that need no settings, and no settings. All others load
as in any other start. So does prometheus_client, which reads the environment when it is loaded.
"""

import gc
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from setproctitle import setproctitle

from base.processes import die_with_parent
from tests.deadlines import DEADLINE
from topics_project.forks import Fork

CONTEXT = multiprocessing.get_context("forkserver")
# Modules that load without settings, and load most of the others.
CONTEXT.set_forkserver_preload(
    [
        "celery.bin.celery",
        "celery.apps.worker",
        "celery.apps.beat",
        "kombu.transport.redis",
        "django.contrib.admin.options",
        "django.contrib.postgres.fields",
        "django.core.management.commands.migrate",
        "django.db.backends.postgresql.base",
        "rest_framework.serializers",
        "django.test",
        "environ",
        "gripcontrol",
        "httptools",
        "jwt",
        "jinja2",
        "msgspec",
        "psycopg",
        "pygraphviz",
        "redis.asyncio",
        "sqlalchemy.dialects.postgresql.psycopg",
        "sqlalchemy.orm",
        "uvloop",
        "whitenoise.middleware",
        "gateway.process",
        "http1.server",
        "tests.preloaded",
        "topics_project.__main__",
        "embedded",
    ]
)


def begin(
    argv: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    output: Path,
    errors: Path | None = None,
    given: Path = Path(os.devnull),
) -> Fork:
    """Runs `python SCRIPT …`, `python -m MODULE …` or `python -c TEXT` in a fork with the libraries loaded.

    `env` is its environment and `folder` its working directory. Its output is appended to `output`, with its standard
    error unless `errors` names another file. Its standard input is the file `given`.
    """
    process = CONTEXT.Process(target=become, args=(list(argv), dict(env), folder, output, errors or output, given))
    process.start()
    return Fork(process)


def run(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    folder: Path = Path(),
    seconds: float = 2 * DEADLINE,
    stdin: bytes = b"",
) -> subprocess.CompletedProcess[str]:
    """Runs a command as `begin` does, and returns its exit code and output as `subprocess.run` would.

    Raises subprocess.TimeoutExpired if the command takes longer than `seconds`.
    """
    with tempfile.TemporaryDirectory() as made:
        output, errors, given = Path(made, "output"), Path(made, "errors"), Path(made, "given")
        given.write_bytes(stdin)
        process = begin(argv, os.environ if env is None else env, folder.resolve(), output, errors, given)
        try:
            code = process.wait(seconds)
        finally:
            process.send_signal(signal.SIGKILL)
        return subprocess.CompletedProcess(list(argv), code, output.read_text(), errors.read_text())


def become(argv: Sequence[str], env: Mapping[str, str], folder: Path, output: Path, errors: Path, given: Path) -> None:
    gc.freeze()  # a collection would walk through all that is loaded
    os.setsid()
    # The server that we are a fork of ends with the tests.
    die_with_parent(os.getppid(), signal.SIGTERM)
    for number, path in ((1, output), (2, errors)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), number)
    with given.open("rb") as file:
        os.dup2(file.fileno(), 0)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has put another in its place
    setproctitle(" ".join(argv))  # while the environment is where it looks for it
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.dont_write_bytecode = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    sys.path[1:1] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))  # as a new interpreter would
    _python, first, *arguments = argv
    sys.argv = [first, *arguments]
    if first == "-m":
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        exec(compile(arguments[0], "-c", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = str(Path(first).resolve().parent)
        runpy.run_path(first, run_name="__main__")
