"""Members of a consumer group in a run, as processes. Every second member is on a WebSocket. Faults kill and freeze members. A
new member takes the place of a dead one.

Whether two live members got a record is not asked here: a frozen server can end the session of a member that is well.
"""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash.harness.client import Client
from tests.groups.team import SOCKET, STREAM, Team, broken

TOPIC, MEMBERS = "fsync", 4  # of an `fsync` topic, an accepted commit survives a crash of PostgreSQL


class Members:
    """The members of the run. `begin` must come first."""

    def __init__(self, port: int, folder: Path) -> None:
        folder.mkdir()
        self.team = Team(port, TOPIC, folder, (STREAM, SOCKET))

    def begin(self) -> None:
        for _ in range(MEMBERS):
            self.team.add()

    def kill(self, pick: random.Random) -> None:
        """One member, without a word. Another one joins."""
        self.team.kill(pick.choice(sorted(self.team.running)))
        self.team.add()

    def freeze(self, pick: random.Random) -> Callable[[], bool]:
        """One member neither runs nor ends for a while. Returns what ends this."""
        process = self.team.running[pick.choice(sorted(self.team.running))]
        process.send_signal(signal.SIGSTOP)

        def thaw() -> bool:
            with contextlib.suppress(ProcessLookupError):  # another fault has killed it meanwhile
                process.send_signal(signal.SIGCONT)
            return True

        return thaw

    def wait_until_done(self, client: Client, patience: float) -> int:
        """Wait as long as the group's lag falls. Returns the lag that stays."""
        least, deadline = 10**9, time.monotonic() + patience
        while least and time.monotonic() < deadline:
            if (lag := self.state(client)["lag"]) < least:
                least, deadline = lag, time.monotonic() + patience
            time.sleep(0.2)
        return least

    def state(self, client: Client) -> Any:
        return client.insist("GET", f"/v0/topics/{TOPIC}/groups/{self.team.group}")

    def faults(self, client: Client, there: set[int]) -> list[str]:
        """Everything that is broken, a sentence each. `there`: the seqs of the topic's records."""
        return list(broken(self.team.lines(), self.state(client)["shares"], there))

    def end(self) -> None:
        self.team.end()
