"""The folder of one instance (TOPICS_DATA): its generated secrets, its ports, its locks, and who still lives in it.

Files in it are made whole or not at all: written beside their place, then renamed into it.
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

LEAST_SECRET = 50  # characters of a SECRET_KEY, as `manage.py check --deploy` wants them
LONGEST_SOCKET_PATH = 107  # bytes, unix(7)
# A secret goes into a URL, a line of SQL and a line of a configuration. Text with other characters is not of our making.
SECRET = re.compile(r"[!-~]+")
URL_SAFE = re.compile(r"[A-Za-z0-9_-]+")


def data_dir() -> Path:
    """TOPICS_DATA; else `.data` beside manage.py; else, as topics is installed, a folder of the user's."""
    given = os.environ.get("TOPICS_DATA", "").strip()
    root = Path(__file__).parent.parent.parent
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
        raise Refusal(f"the data folder {data} cannot be used ({error.strerror}): set TOPICS_DATA.") from error


def write(path: Path, text: str) -> None:
    """Readable by us alone, and never seen half-written."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.replace(name, path)


def open_log(path: Path) -> BinaryIO:
    """For appending, readable by us alone. Whoever writes to it writes at its end, also after shorten()."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab")


def shorten(log: Path, most: int) -> None:
    """Put a log of more than `most` bytes aside, as .log.old, while its writers go on writing to it.

    They hold the file open, so it is copied and emptied in place: a line written between the two is lost.
    """
    if not log.exists() or log.stat().st_size <= most:
        return
    old = log.with_suffix(".log.old")
    old.unlink(missing_ok=True)
    try:
        with log.open("rb") as source, open_log(old) as copy:
            shutil.copyfileobj(source, copy)
    except OSError:  # no room for both: then the room is worth more than what the log says
        old.unlink(missing_ok=True)
    os.truncate(log, 0)


def keep_secret(path: Path, least: int = 1, form: re.Pattern[str] = SECRET) -> str:
    """Returns the secret of that file. A file that does not exist, or holds no secret of this form, gets a new one.

    Raises Refusal for a file that cannot be read or written.
    """
    with usable():
        found = path.read_text(errors="replace").strip() if path.exists() else ""
        if len(found) < least or form.fullmatch(found) is None:
            found = secrets.token_urlsafe(48)
            write(path, found)
    return found


@contextlib.contextmanager
def usable() -> Iterator[None]:
    """Turns the error of a file into a Refusal that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise Refusal(f"the disk is full ({error.filename}): make room on it.") from error
        where = error.filename2 or error.filename or "a file of the data folder"
        raise Refusal(f"{where} cannot be used ({error.strerror}): remove it, or give it to this user.") from error


def take_port(path: Path) -> int:
    """The port noted in that file if it is still free, else another free one, noted."""
    try:
        port = bind("127.0.0.1", int(path.read_text()))
    except (OSError, ValueError, OverflowError):
        port = bind("127.0.0.1", 0)
    with usable():
        write(path, str(port))
    return port


def bind(host: str, port: int) -> int:
    """The port (one that is free for 0) if a server could listen there; OSError says why it could not."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host.strip("[]"), port))
        return int(probe.getsockname()[1])


def processes_in(folder: Path) -> list[int]:
    """Processes whose working directory is `folder` (Linux; elsewhere none are found)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if entry.readlink() == folder.resolve():
                found.append(int(entry.parent.name))
        except OSError:
            continue  # gone meanwhile, or somebody else's
    return found


def short_folder(data: Path, longest_name: str) -> Path:
    """A folder for Unix sockets: in `data`, or in /tmp when that path is too long for a socket's address."""
    folder = data / "run"
    if len(os.fsencode(folder / longest_name)) > LONGEST_SOCKET_PATH:
        name = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:16]
        folder = Path("/tmp") / f"topics-{os.geteuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or (os.geteuid() != 0 and folder.stat().st_uid != os.geteuid()):
        raise Refusal(f"{folder} belongs to somebody else: remove it, or set TOPICS_DATA to a shorter path.")
    folder.chmod(0o700)
    return folder


def last_line(log: Path, about: str = "") -> str:
    """What went wrong, in the words of who it happened to: of its last lines the one about that, or the very last."""
    lines = log.read_text(errors="replace").strip().splitlines()[-10:] if log.exists() else []
    return next((line for line in reversed(lines) if about in line), lines[-1] if lines else "it said nothing")
