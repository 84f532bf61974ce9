"""One embedded Redis in a folder, by the program that programs.py finds: on loopback, with a password, its snapshot beside it.

It holds hints and wake-ups only: what is lost with it is found again by the sweeps, so a snapshot is enough.
"""

import contextlib
import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from base.refusal import Refusal
from topics_project.embedded import programs
from topics_project.embedded.children import Child
from topics_project.embedded.folder import URL_SAFE, keep_secret, last_line, processes_in, take_port, write

CONFIG = """\
bind 127.0.0.1
port {port}
requirepass {password}
dir "{folder}"
dbfilename {snapshot}
save 60 1
appendonly no
stop-writes-on-bgsave-error no
daemonize no
tcp-backlog 511
"""


@dataclass
class RedisServer:
    data: Path  # the instance's folder, TOPICS_DATA
    child: Child | None = None
    port: int = 0

    @property
    def log(self) -> Path:
        return self.data / "logs" / "redis.log"

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    @property
    def password(self) -> str:
        return keep_secret(self.data / "redis-password", form=URL_SAFE)

    def start(self) -> None:
        """Up and answering, or Refusal. The caller makes sure that nobody else does this for the same folder."""
        folder = self.data / "redis"
        self._clear_leftovers(folder)
        self.port = take_port(self.data / "redis-port")
        program = programs.redis()
        # An older version cannot read the snapshot of a later one. Each has its own, and begins with nothing beside another's.
        snapshot = f"dump-{program.version_text}.rdb"
        config = CONFIG.format(port=self.port, password=self.password, folder=folder, snapshot=snapshot)
        write(folder / "redis.conf", config)
        self.child = Child("Redis", [str(program.path), str(folder / "redis.conf")], self.log)
        self.child.start()
        if not self._wait() and (folder / snapshot).exists():
            # It holds hints alone: the sweeps find again whatever they were about.
            (folder / snapshot).rename(folder / f"{snapshot}.broken")
            print(
                f"Redis could not read {folder / snapshot}: it is put aside, and Redis starts without it.", flush=True
            )
            self.child.start()
            self._wait()
        if not self._answers():
            self.stop()
            raise Refusal(f"Redis did not start: {last_line(self.log)} ({self.log})")

    def stop(self) -> None:
        if self.child:
            self.child.stop()

    def _clear_leftovers(self, folder: Path) -> None:
        """A Redis that outlived a killed predecessor is on its way down; help it, for it would write its snapshot."""
        began = time.monotonic()
        while left := processes_in(folder):
            waited = time.monotonic() - began
            if waited > 30:
                raise Refusal(f"another Redis (process {left[0]}) still uses {folder}: stop it.")
            with contextlib.suppress(ProcessLookupError):
                os.kill(left[0], signal.SIGTERM if waited < 10 else signal.SIGKILL)
            time.sleep(0.2)

    def _wait(self) -> bool:
        """Whether it answers. It does not if it has ended, or takes longer than a minute."""
        deadline = time.monotonic() + 60
        while not self._answers():
            if self.child is None or self.child.exited() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _answers(self) -> bool:
        """-LOADING while it reads its snapshot, -NOAUTH once it is ready for us."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"-NOAUTH")
        except OSError:
            return False
