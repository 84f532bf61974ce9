"""The processes of one gateway tell each other their counters and their configuration, through files in a private folder.

Each process has a slot, which names its file. It replaces the file every second, and before it answers a request about all
processes. The next process in the slot of a killed one continues its counters, so that no sum ever decreases. A sum may lack the
last second of the other processes.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from gateway.metrics import Told


class Siblings:
    """The processes of a gateway, seen by the one of a slot. `folder`: None for a gateway of one process."""

    def __init__(self, folder: Path | None = None, slot: int = 0) -> None:
        self.folder, self.slot = folder, slot

    def left(self) -> Told | None:
        """Returns the last report of the process that had this slot before, None without one."""
        return None if self.folder is None else read(self.folder / str(self.slot))

    def tell(self, own: Told) -> None:
        if self.folder is None:
            return
        new = self.folder / f"{self.slot}.new"
        # A reader, and a kill at any point, find the old file or the new one.
        with contextlib.suppress(OSError):  # the disk is full: the others keep the report before
            new.write_bytes(msgspec.json.encode(own))
            new.replace(self.folder / str(self.slot))

    def all(self, own: Told) -> list[Told]:
        """Returns the last report of every process, and `own` for this one. An ended process keeps its counters only."""
        self.tell(own)
        if self.folder is None:
            return [own]
        try:
            slots = sorted(int(each.name) for each in self.folder.iterdir() if each.name.isdigit())
        except OSError:  # the first process was killed, and this one is about to end
            return [own]
        found = [own if slot == self.slot else read(self.folder / str(slot)) for slot in slots]
        return [each if is_alive(each.pid) else ended(each) for each in found if each is not None]


def read(file: Path) -> Told | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Told)
    except (OSError, msgspec.MsgspecError):
        return None


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def ended(told: Told) -> Told:
    return msgspec.structs.replace(told, status="ended", in_flight={}, breakers=[], gauges=[])
