"""One embedded PostgreSQL in a folder, with the programs from programs.py and its own settings.

A new cluster is created under a temporary name and renamed, so a partial cluster is never used. PostgreSQL refuses to run as
root, so root starts PostgreSQL as an unprivileged user. That user owns the cluster.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import psycopg

from base.refusal import Refusal
from embedded import programs
from embedded.children import Child
from embedded.folder import URL_SAFE, keep_secret, last_line, open_log, processes_in, short_folder, take_port
from embedded.rights import CLOSE_FUNCTIONS

DATABASE = USER = "topics"
SETUP = f"""\
CREATE ROLE {USER} LOGIN CREATEDB CREATEROLE PASSWORD '{{password}}' IN ROLE pg_monitor
CREATE DATABASE {DATABASE} OWNER {USER}
"""
PASSWORD = f"ALTER ROLE {USER} PASSWORD '{{password}}'\n"
LEAST_WAL, MOST_WAL = 64 * 2**20, 4 * 2**30  # bytes
LEAST_MARGIN = 96 * 2**20
# The seconds until which the PostgreSQL of a killed guard gets each signal: a fast shutdown first. A SIGKILL loses no data,
# because the next start recovers, and begins only when no process is left.
ENDING = {signal.SIGINT: 30, signal.SIGQUIT: 45, signal.SIGKILL: 60}
# The same for processes without a postmaster. They end themselves, so only those that hang get the last signal.
ENDING_ORPHANS = {signal.SIGTERM: 3, signal.SIGQUIT: 6, signal.SIGKILL: 60}
# With these capabilities an unprivileged PostgreSQL passes through parent folders that only root may enter (/root), best first.
READ_SEARCH, OVERRIDE = (2, "dac_read_search"), (1, "dac_override")


@dataclass
class Postgres:
    data: Path  # the instance's folder, TOPICS_DATA
    child: Child | None = None
    port: int = 0
    most_wal: int = 0  # bytes, like margin
    margin: int = 0

    @property
    def cluster(self) -> Path:
        return self.data / "postgresql"

    @cached_property
    def binaries(self) -> Path:
        """Returns the folder of programs of the data's version. Without data, any suitable version is used."""
        made_by = self.cluster / "PG_VERSION"
        try:
            major = int(made_by.read_text()) if made_by.exists() else None
        except ValueError as error:
            raise Refusal(
                f"{made_by} is not a version of PostgreSQL: the data is damaged. Restore a backup."
            ) from error
        return programs.postgres(major).path.parent

    @property
    def log(self) -> Path:
        return self.data / "logs" / "postgresql.log"

    @property
    def password(self) -> str:
        return keep_secret(self.data / "database-password", form=URL_SAFE)

    @property
    def url(self) -> str:
        return (
            f"postgresql://{USER}:{self.password}@/{DATABASE}?host={quote(str(self.sockets), safe='')}&port={self.port}"
        )

    @property
    def jdbc_url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{DATABASE}"

    @property
    def sockets(self) -> Path:
        return short_folder(self.data, ".s.PGSQL.65535.lock")

    def start(self) -> None:
        """Starts PostgreSQL and waits for an answer, or raises Refusal. The caller prevents two starts in one folder."""
        if not (self.cluster / "PG_VERSION").exists():
            self._make_cluster()
        self._clear_leftovers()
        self._close()
        self.port = take_port(self.data / "postgresql-port")
        self._own(self.sockets)
        # SIGINT ends the sessions, flushes everything and exits. SIGQUIT exits at once, with every stopped backend, and the
        # next start recovers. SIGKILL would leave the backends running. PostgreSQL ignores SIGINT at the start of its own crash
        # recovery, so the patience is also the longest delay of the next start.
        self.child = Child(
            "PostgreSQL",
            self._argv(),
            self.log,
            stop_signal=signal.SIGINT,
            patience=30,
            harsh_signal=signal.SIGQUIT,
            orphan_signal=signal.SIGINT,
            orphans=self._orphans,
        )
        self.child.start()
        self._wait()
        if not self._opens():
            self._set_password()

    def stop(self) -> None:
        if self.child:
            self.child.stop()
        if self.sockets.parent != self.data:
            shutil.rmtree(self.sockets, ignore_errors=True)

    def _make_cluster(self) -> None:
        new = self.data / "postgresql.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        self._own(new)
        superuser = self.data / "postgresql.pw"  # only initdb reads the file; the superuser's password is not kept
        keep_secret(superuser)
        self._own(superuser)
        # Both locales order text by bytes. macOS has no C.UTF-8.
        locale = "C" if sys.platform == "darwin" else "C.UTF-8"
        options = ["-U", "postgres", "-A", "scram-sha-256", "-E", "UTF8", f"--locale={locale}"]
        self._run(["initdb", "-D", str(new), "--pwfile", str(superuser), *options])
        # Two roles: the site's role may not read files or run programs, so an error in the site cannot do so either.
        self._run(["postgres", "--single", "-D", str(new), "postgres"], SETUP.format(password=self.password))
        superuser.unlink()
        new.rename(self.cluster)

    def _opens(self) -> bool:
        """Returns whether the role has the password of the file. The file can be lost, or come from elsewhere."""
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError as error:
            if "password authentication failed" not in str(error):
                raise Refusal(f"PostgreSQL refused the login: {str(error).splitlines()[0]}") from error
            return False
        return True

    def _set_password(self) -> None:
        """Sets the role's password to the password of the file.

        The data belongs to the owner of this folder. The owner needs no password for the change.
        """
        assert self.child is not None
        self.child.stop()
        self._run(
            ["postgres", "--single", "-D", str(self.cluster), "postgres"], PASSWORD.format(password=self.password)
        )
        print(
            f"The database had another password than {self.data / 'database-password'}. The server changed it in the database.",
            flush=True,
        )
        self.child.start()
        self._wait()

    def _close(self) -> None:
        """Lets only the site's role take locks, once for each cluster. Once is enough, because no superuser can log in."""
        closed = self.cluster / "topics-closed"
        if not closed.exists():
            close = CLOSE_FUNCTIONS.replace("{writers}", USER)
            self._run(["postgres", "--single", "-D", str(self.cluster), DATABASE], f"{close}\n")
            closed.touch()

    def _run(self, argv: list[str], stdin: str = "") -> None:
        argv = [*self.as_user(), str(self.binaries / argv[0]), *argv[1:]]
        done = subprocess.run(argv, input=stdin, text=True, capture_output=True, cwd="/", check=False)
        with open_log(self.log) as log:
            log.write((done.stdout + done.stderr).encode())
        if done.returncode or "ERROR:" in done.stderr:
            line = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise Refusal(f"Cannot set up PostgreSQL in {self.data}: {line}")

    def _clear_leftovers(self) -> None:
        """Removes the leftovers of a predecessor that was killed with kill -9: its running processes, then postmaster.pid."""
        began = time.monotonic()
        while left := postgres_in(self.cluster):
            waited = time.monotonic() - began
            postmaster = self._postmaster()
            ways = (ENDING if postmaster in left else ENDING_ORPHANS).items()
            number = next((number for number, until in ways if waited < until), None)
            if number is None:
                raise Refusal(f"another PostgreSQL (process {left[0]}) still uses {self.cluster}: stop that process.")
            # A postmaster ends its processes itself, but not after a SIGKILL.
            for pid in left if number == signal.SIGKILL or postmaster not in left else [postmaster]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(0.2)
        # No PostgreSQL has this folder as its working directory, and each of its processes would. So these files are stale. The
        # pid in postmaster.pid can belong to any other process, or to a zombie, and would prevent the start.
        for stale in (self.cluster / "postmaster.pid", *self.sockets.iterdir()):
            stale.unlink(missing_ok=True)

    def _orphans(self) -> list[int]:
        """Returns the processes without a postmaster. Each has a group of its own, and one that hangs would prevent a start."""
        left = postgres_in(self.cluster)
        return [] if self._postmaster() in left else left

    def _postmaster(self) -> int:
        """Returns the number in postmaster.pid, or 0. The number can belong to any other process by now."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int((self.cluster / "postmaster.pid").read_text().split()[0])
        return 0

    def _argv(self) -> list[str]:
        argv = [*self.as_user(), str(self.binaries / "postgres"), "-D", str(self.cluster)]
        for name, value in {**settings(), **self._own_settings()}.items():
            argv += ["-c", f"{name}={value}"]
        return argv

    def _own_settings(self) -> dict[str, object]:
        self.most_wal, self.margin = wal_limits(free_bytes(self.cluster) + self._wal_bytes())
        return {
            "port": self.port,
            "unix_socket_directories": self.sockets,
            "unix_socket_permissions": "0700",  # root can still connect
            "max_wal_size": f"{self.most_wal // 2**20}MB",
        }

    def room(self) -> int:
        """Returns how many bytes of records can still be written. If the result is negative, no records can be written.

        PostgreSQL refuses a statement whose rows find no room, but exits if its WAL finds no room. So the method reserves the
        growth of the WAL, and a margin. The margin is also reserved while the WAL is larger than its limit. Until a checkpoint
        shrinks the WAL, the WAL still grows, and deletes must work.
        """
        return free_bytes(self.cluster) - max(0, self.most_wal - self._wal_bytes()) - self.margin

    def _wal_bytes(self) -> int:
        found = 0
        for segment in (self.cluster / "pg_wal").glob("[0-9A-F]*"):
            with contextlib.suppress(FileNotFoundError):  # PostgreSQL has just removed or renamed the file
                found += segment.stat().st_size
        return found

    def _wait(self) -> None:
        """Waits until PostgreSQL accepts connections. Crash recovery of a large WAL can take minutes."""
        deadline = time.monotonic() + 300
        probe = [str(self.binaries / "pg_isready"), "-q", "-h", str(self.sockets), "-p", str(self.port)]
        while subprocess.run(probe, check=False).returncode != 0:
            if self.child is None or self.child.exited() is not None or time.monotonic() > deadline:
                self.stop()
                raise Refusal(f"PostgreSQL did not start: {last_line(self.log, 'FATAL')} ({self.log})")
            time.sleep(0.05)

    # -- root: an unprivileged user in between --------------------------------------------------------------------

    def as_user(self) -> list[str]:
        """Returns the prefix of a command that root runs as the server's user."""
        if os.geteuid() != 0:
            return []
        user = self.user()
        argv = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--pdeathsig=INT"]
        if closed := closed_folder(self.data, self.binaries):
            capability = held_capability()
            if not capability:
                raise Refusal(
                    f"PostgreSQL runs as the user {user.pw_name}, which cannot enter {closed}: run chmod o+x {closed}"
                )
            # no_setuid_fixup: access(2) then honours the capability. PostgreSQL's own checks use access(2).
            argv += [f"--inh-caps=+{capability}", f"--ambient-caps=+{capability}", "--securebits=+no_setuid_fixup"]
        return [*argv, "--"]

    def user(self) -> pwd.struct_passwd:
        with contextlib.suppress(FileNotFoundError, KeyError):
            return pwd.getpwuid(self.cluster.stat().st_uid)
        for name in ("postgres", "nobody"):
            with contextlib.suppress(KeyError):
                return pwd.getpwnam(name)
        raise Refusal("PostgreSQL cannot run as root, and the users postgres and nobody do not exist: create one.")

    def _own(self, path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, self.user().pw_uid, self.user().pw_gid)


def postgres_in(folder: Path) -> list[int]:
    """Returns the processes of PostgreSQL with their data in `folder`, and no shell that is there, too."""
    found = []
    for pid in processes_in(folder):
        with contextlib.suppress(OSError):  # the process has exited
            if Path(f"/proc/{pid}/comm").read_text().strip() == "postgres":
                found.append(pid)
    return found


def settings() -> dict[str, object]:
    """Returns settings for this machine and for queue-like tables. fsync and full_page_writes stay on."""
    megabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    return {
        "listen_addresses": "127.0.0.1",
        "max_connections": 300,
        "shared_buffers": f"{max(32, min(megabytes // 8, 1024))}MB",
        "effective_cache_size": f"{max(64, megabytes // 2)}MB",
        "wal_level": "minimal",  # an embedded server has no replicas
        "max_wal_senders": 0,
        "checkpoint_timeout": "15min",
        "checkpoint_completion_target": 0.9,
        "random_page_cost": 1.1,
        "jit": "off",  # statements take microseconds, compilation would take milliseconds
        "autovacuum_naptime": "10s",
        "autovacuum_vacuum_cost_limit": 2000,
        "timezone": "UTC",
    }


def free_bytes(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def wal_limits(free: int) -> tuple[int, int]:
    """Returns (bytes of WAL to keep, bytes to leave free beside the WAL).

    `free`: free bytes for the WAL, the margin and the records. More WAL means fewer checkpoints.
    """
    return max(LEAST_WAL, min(free // 10, MOST_WAL)), max(LEAST_MARGIN, min(free // 20, MOST_WAL // 4))


def closed_folder(*paths: Path) -> Path | None:
    """Returns the first folder on the paths that other users may not enter, or None."""
    for path in paths:
        for folder in reversed([path.resolve(), *path.resolve().parents]):
            if not folder.stat().st_mode & 0o001:
                return folder
    return None


def held_capability() -> str:
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return next((name for bit, name in (READ_SEARCH, OVERRIDE) if int(effective, 16) >> bit & 1), "")
