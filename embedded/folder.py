"""The folder of one instance (TOPICS_DATA): generated secrets, ports, locks, and the processes in the folder.

Files are replaced in one step: written under a temporary name, then renamed.
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from base.refusal import Refusal

LEAST_SECRET = 50  # characters of a SECRET_KEY, the minimum of `manage.py check --deploy`
LONGEST_SOCKET_PATH = 107  # bytes, unix(7)
# A secret is used in a URL, in SQL and in a configuration. This code generates no text with other characters.
SECRET = re.compile(r"[!-~]+")
URL_SAFE = re.compile(r"[A-Za-z0-9_-]+")


def data_dir() -> Path:
    """Returns TOPICS_DATA, or `.data` beside manage.py, or, for an installed package, a folder of the user."""
    given = os.environ.get("TOPICS_DATA", "").strip()
    root = Path(__file__).parent.parent
    if given:
        return Path(given).expanduser().absolute()
    if (root / "manage.py").exists():
        return (root / ".data").absolute()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share").absolute() / "topics"


def make(data: Path) -> None:
    try:
        data.mkdir(mode=0o711, parents=True, exist_ok=True)
        for name in ("logs", "locks", "redis"):
            (data / name).mkdir(mode=0o700, exist_ok=True)
        (data / "locks" / "users").touch(mode=0o600)
    except OSError as error:
        raise Refusal(
            f"the data folder {data} is not usable ({error.strerror}): set TOPICS_DATA to another folder."
        ) from error


def write(path: Path, text: str) -> None:
    """Writes a file in one step: no process reads partial text. Only this user can read the file."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.replace(name, path)


def open_log(path: Path) -> BinaryIO:
    """Opens a log for appending. Only this user can read the log. Writers append at the end, also after shorten()."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab")


def shorten(log: Path, most: int) -> None:
    """Copies a log of more than `most` bytes to .log.old and empties the log.

    Writers hold the file open, so the log is not renamed. A line that is written between the copy and the emptying is lost.
    """
    if not log.exists() or log.stat().st_size <= most:
        return
    old = log.with_suffix(".log.old")
    old.unlink(missing_ok=True)
    try:
        with log.open("rb") as source, open_log(old) as copy:
            shutil.copyfileobj(source, copy)
    except OSError:  # the disk has no room for both files: free room is worth more than the log
        old.unlink(missing_ok=True)
    os.truncate(log, 0)


def keep_secret(path: Path, least: int = 1, form: re.Pattern[str] = SECRET) -> str:
    """Returns the secret in the file. If the file is missing or its secret has another form, the function writes a new secret.

    Raises Refusal if the file cannot be read or written.
    """
    with usable():
        found = path.read_text(errors="replace").strip() if path.exists() else ""
        if len(found) < least or form.fullmatch(found) is None:
            found = secrets.token_urlsafe(48)
            write(path, found)
    return found


@contextlib.contextmanager
def usable() -> Iterator[None]:
    """Turns the error of a file into a Refusal with the name of the file."""
    try:
        yield
    except OSError as error:
        where = error.filename2 or error.filename or "a file of the data folder"
        if error.errno == errno.ENOSPC:
            raise Refusal(f"the disk is full ({where}): free space.") from error
        raise Refusal(f"{where} is not usable ({error.strerror}): remove the file, or change its owner.") from error


def take_port(path: Path) -> int:
    """Returns the port in the file if the port is free. Otherwise stores and returns another free port."""
    try:
        port = bind("127.0.0.1", int(path.read_text()))
    except (OSError, ValueError, OverflowError):
        port = bind("127.0.0.1", 0)
    with usable():
        write(path, str(port))
    return port


def bind(host: str, port: int) -> int:
    """Returns the port if a server could listen on the port. For port 0, returns a free port. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host.strip("[]"), port))
        return int(probe.getsockname()[1])


def processes_in(folder: Path) -> list[int]:
    """Returns the processes whose working directory is `folder`. Works only on Linux; elsewhere the list is empty."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if entry.readlink() == folder.resolve():
                found.append(int(entry.parent.name))
        except OSError:
            continue  # the process has exited, or belongs to another user
    return found


def short_folder(data: Path, longest_name: str) -> Path:
    """Returns a folder for Unix sockets: in `data`, or in /tmp if that path is too long for a socket's address."""
    folder = data / "run"
    if len(os.fsencode(folder / longest_name)) > LONGEST_SOCKET_PATH:
        name = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:16]
        folder = Path("/tmp") / f"topics-{os.geteuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or (os.geteuid() != 0 and folder.stat().st_uid != os.geteuid()):
        raise Refusal(f"{folder} belongs to another user: remove it, or set TOPICS_DATA to a shorter path.")
    folder.chmod(0o700)
    return folder


def last_line(log: Path, about: str = "") -> str:
    """Returns the last line that contains `about`, of the log's last 10 lines. Otherwise returns the very last line."""
    lines = log.read_text(errors="replace").strip().splitlines()[-10:] if log.exists() else []
    return next((line for line in reversed(lines) if about in line), lines[-1] if lines else "no message")
