"""Exchanges counters and configurations between the processes of one gateway, through files in a private folder.

Each process has a slot with one file. The process replaces the file every second, and before an answer about all processes. If
a process is killed, the next process in the slot continues its counters, so no sum decreases. A sum can lack the last second of
the other processes.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from gateway.metrics import ProcessCounts


class Siblings:
    """The processes of a gateway, from the view of one slot. `folder`: None for a gateway with one process."""

    def __init__(self, folder: Path | None = None, slot: int = 0) -> None:
        self.folder, self.slot = folder, slot

    def left(self) -> ProcessCounts | None:
        """Returns the last report of the previous process in this slot, or None."""
        return None if self.folder is None else read(self.folder / str(self.slot))

    def tell(self, own: ProcessCounts) -> None:
        if self.folder is None:
            return
        new = self.folder / f"{self.slot}.new"
        # Replace the file in one step. So readers find a whole file, also after a kill.
        with contextlib.suppress(OSError):  # the disk is full: the other processes keep the previous report
            new.write_bytes(msgspec.json.encode(own))
            new.replace(self.folder / str(self.slot))

    def all(self, own: ProcessCounts) -> list[ProcessCounts]:
        """Returns the last report of every process, with `own` for this process. An exited process keeps only its counters."""
        self.tell(own)
        if self.folder is None:
            return [own]
        try:
            slots = sorted(int(each.name) for each in self.folder.iterdir() if each.name.isdigit())
        except OSError:  # the first process was killed, and this process is about to exit
            return [own]
        found = [own if slot == self.slot else read(self.folder / str(slot)) for slot in slots]
        return [each if is_alive(each.pid) else ended(each) for each in found if each is not None]


def read(file: Path) -> ProcessCounts | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=ProcessCounts)
    except (OSError, msgspec.MsgspecError):
        return None


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def ended(told: ProcessCounts) -> ProcessCounts:
    return msgspec.structs.replace(told, status="ended", in_flight={}, breakers=[], gauges=[])
