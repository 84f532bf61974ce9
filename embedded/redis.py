"""One embedded Redis in a folder: on loopback, with a password and a snapshot. programs.py finds the program.

Redis holds only hints and wake-ups. The sweeps recover lost hints, so a snapshot is enough.
"""

import contextlib
import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from base.refusal import Refusal
from embedded import programs
from embedded.children import Child
from embedded.folder import URL_SAFE, keep_secret, last_line, processes_in, take_port, write

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
        """Starts Redis and waits for an answer, or raises Refusal. The caller prevents two starts in one folder."""
        folder = self.data / "redis"
        self._clear_leftovers(folder)
        self.port = take_port(self.data / "redis-port")
        program = programs.redis()
        # An older version cannot read the snapshot of a later version. So each version has its own snapshot, and starts empty.
        snapshot = f"dump-{program.version_text}.rdb"
        config = CONFIG.format(port=self.port, password=self.password, folder=folder, snapshot=snapshot)
        write(folder / "redis.conf", config)
        self.child = Child("Redis", [str(program.path), str(folder / "redis.conf")], self.log)
        self.child.start()
        if not self._wait() and (folder / snapshot).exists():
            # Redis holds only hints, and the sweeps recover lost hints.
            (folder / snapshot).rename(folder / f"{snapshot}.broken")
            print(
                f"Redis cannot read {folder / snapshot}. The file was renamed, and Redis starts without it.", flush=True
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
        """Stops a Redis that outlived a killed predecessor, because that Redis would write its snapshot."""
        began = time.monotonic()
        while left := processes_in(folder):
            waited = time.monotonic() - began
            if waited > 30:
                raise Refusal(f"another Redis (process {left[0]}) still uses {folder}: stop that process.")
            with contextlib.suppress(ProcessLookupError):
                os.kill(left[0], signal.SIGTERM if waited < 10 else signal.SIGKILL)
            time.sleep(0.2)

    def _wait(self) -> bool:
        """Returns whether Redis answers. False if Redis has exited, or takes longer than a minute."""
        deadline = time.monotonic() + 60
        while not self._answers():
            if self.child is None or self.child.exited() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _answers(self) -> bool:
        """Returns whether Redis is ready. Redis answers -LOADING while Redis reads its snapshot, and then -NOAUTH."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"-NOAUTH")
        except OSError:
            return False
