"""Instances that begin with the libraries loaded.

A run of the tests starts some three hundred instances. Of the two seconds of a core that a start takes, more than one goes
into loading Django, Celery and what they need. Here that is done once a process of the run: instances are forks of a server
(multiprocessing's), which has loaded libraries alone, nothing of ours and no settings. What is ours runs as in any other
start.
"""

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from setproctitle import setproctitle

from base.processes import die_with_parent
from topics_project.forks import Fork

CONTEXT = multiprocessing.get_context("forkserver")
# Those that load without settings, and load most of the others.
CONTEXT.set_forkserver_preload(
    [
        "granian.cli",
        "granian.server.mp",
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
        "jwt",
        "jinja2",
        "msgspec",
        "psycopg",
        "redis.asyncio",
        "uvloop",
        "whitenoise.middleware",
    ]
)


def begin(argv: Sequence[str], env: Mapping[str, str], folder: Path, output: Path) -> Fork:
    """Run `python SCRIPT …` in a fork with the libraries loaded, with this environment and in this folder."""
    output.write_bytes(b"")  # what an earlier run of it printed is not taken for this one's
    process = CONTEXT.Process(target=become, args=(list(argv), dict(env), folder, output))
    process.start()
    return Fork(process)


def become(argv: Sequence[str], env: Mapping[str, str], folder: Path, output: Path) -> None:
    os.setsid()
    # The server that we are a fork of ends with the tests.
    die_with_parent(os.getppid(), signal.SIGTERM)
    with output.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    setproctitle(" ".join(argv))  # while the environment is where it looks for it
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    _python, script, *arguments = argv
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")
