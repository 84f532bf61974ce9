"""The shared memory and the sockets that a killed PostgreSQL leaves, if it does not start again.

A small segment of System V names a control segment in /dev/shm, and that one names all others. The layouts are those of
PostgreSQL 14 to 18 on 64 bits.
"""

import contextlib
import ctypes
import os
import shutil
import struct
import sys
from pathlib import Path

MEMORY = Path("/dev/shm")
SOCKETS_IN_LINE = 4  # of postmaster.pid, from 0: the folder of its sockets
NAMED_IN_LINE = 6  # of postmaster.pid, from 0: key and id of the segment of System V
HEADER = struct.Struct("=iiQQI")  # magic, creator, two sizes, handle of the control segment (pg_shmem.h)
HEADER_MAGIC = 679_834_894
CONTROL = struct.Struct("=III4x")  # magic, number of items, most items (dsm.c)
CONTROL_MAGIC = 0x9A50_3D32
ITEM = struct.Struct("=II32x")  # handle, references
READ_ONLY, REMOVE = 0o10000, 0  # SHM_RDONLY, IPC_RMID


def free_shared_memory(postmaster: Path) -> None:
    """Frees what a killed PostgreSQL left. The kernel has room for 4,096 such segments, and they are memory.

    `postmaster`: the file postmaster.pid of its cluster. PostgreSQL itself would free them at its next start.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, IndexError, ValueError):
        key, number = map(int, postmaster.read_text().splitlines()[NAMED_IN_LINE].split())
        if not unused(key, number):
            return
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        address = libc.shmat(number, None, READ_ONLY)
        if address is None or ctypes.c_ssize_t(address).value == -1:
            return
        magic, *_, control = HEADER.unpack(ctypes.string_at(address, HEADER.size))
        libc.shmdt(ctypes.c_void_p(address))
        if magic == HEADER_MAGIC:
            for handle in (*handles(control), control):
                (MEMORY / f"PostgreSQL.{handle}").unlink(missing_ok=True)
            libc.shmctl(number, REMOVE, None)


def remove_sockets(postmaster: Path) -> None:
    """Removes the folder of the sockets of a killed PostgreSQL. It is beside the data if their path is too long for a socket."""
    with contextlib.suppress(OSError, IndexError):
        folder = Path(postmaster.read_text().splitlines()[SOCKETS_IN_LINE])
        if folder.name.startswith(f"topics-{os.geteuid()}-"):
            shutil.rmtree(folder)


def unused(key: int, number: int) -> bool:
    """Whether a segment of System V is still that of the key, and no process has it."""
    rows = map(str.split, Path("/proc/sysvipc/shm").read_text().splitlines()[1:])
    return any((int(row[0]), int(row[1]), int(row[6])) == (key, number, 0) for row in rows)


def handles(control: int) -> list[int]:
    """Returns the handles of the segments that a control segment names."""
    content = (MEMORY / f"PostgreSQL.{control}").read_bytes()
    magic, items, _ = CONTROL.unpack_from(content)
    if magic != CONTROL_MAGIC:
        return []
    named = (ITEM.unpack_from(content, CONTROL.size + n * ITEM.size) for n in range(items))
    return [handle for handle, references in named if references]
