"""A PostgreSQL that the product did not start, as a team already has one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from embedded.postgres import Postgres
from tests.instances import free_port, until


class Own:
    """A PostgreSQL in a folder that stands for /srv in commands. Root runs it as the user of the embedded one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"postgresql://topics@127.0.0.1:{self.port}/postgres"
        self.server = Postgres(folder)
        self.prefix = self.server.as_user()
        self.serves = ""  # the folder of the server that runs

    def shell(self, script: str, **settings: str) -> None:
        env = {
            **os.environ,
            "PATH": f"{self.server.binaries}:{os.environ['PATH']}",
            "DATABASE_URL": self.url,
            **settings,
        }
        script = script.replace("/srv/", f"{self.folder}/")
        done = subprocess.run([*self.prefix, "bash", "-euc", script], env=env, cwd="/", capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def make(self, configuration: str) -> None:
        own = f"port = {self.port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{self.folder}'\n"
        self.shell("mkdir /srv/wal; initdb -D /srv/data -U topics -A trust -E UTF8 --locale=C.UTF-8")
        with (self.folder / "data/postgresql.conf").open("a") as file:
            file.write(own + configuration.replace("/srv/", f"{self.folder}/"))

    def serve(self, data: str) -> None:
        """Starts the server of this folder, in place of the one that runs."""
        self.stop()
        self.shell(f"pg_ctl -D /srv/{data} -w -l /srv/log start")
        self.serves = data

    def stop(self) -> None:
        if self.serves:
            self.shell(f"pg_ctl -D /srv/{self.serves} -w -m fast stop")
            self.serves = ""

    @contextlib.contextmanager
    def running(self, data: str) -> Iterator[psycopg.Connection[Any]]:
        """Yields a connection when the server takes writes."""
        self.serve(data)
        try:
            with psycopg.connect(self.url, autocommit=True) as connection:
                until(lambda: connection.execute("SELECT NOT pg_is_in_recovery()").fetchone()[0], "it to be promoted")
                yield connection
        finally:
            self.stop()


@contextlib.contextmanager
def own_postgres(configuration: str = "") -> Iterator[Own]:
    folder = Path(tempfile.mkdtemp(prefix="topics-own-"))
    if os.geteuid() == 0:
        os.chown(folder, Postgres(folder).user().pw_uid, -1)
    own = Own(folder)
    own.make(configuration)
    try:
        yield own
    finally:
        own.stop()
        shutil.rmtree(folder)
