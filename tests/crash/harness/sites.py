"""A mirror in a run: another server, a topic with a writer at each site, and a process of `topics mirror` between the sites.

The oracle's rule is at the end: each record once at each site, in the order of its origin. The mirror must never end by itself.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.crash.harness.client import Client
from tests.crash.harness.evidence import Evidence
from tests.crash.harness.load import Hand, Stage
from tests.crash.harness.queues import read
from tests.instances import Instance, free_port
from tests.mirrors.running import Mirroring

TOPIC, HERE, THERE = "site", "here", "there"
# A crash of PostgreSQL takes back no record of an `fsync` topic. No key makes a repeated handover safe, only its position does.
CONFIG = {"durability": "fsync", "idempotency_window_ms": 0}


class SiteWriter(Hand):
    """Appends one to five records at a time, at one of the sites."""

    def __init__(self, stage: Stage, site: str, port: int) -> None:
        super().__init__(stage, f"writer-{TOPIC}-{site}")
        self.go_to(port)
        self.site, self.number = site, 0

    def step(self) -> None:
        self.number += 1
        data = [f"{self.site}/{self.number}/{place}" for place in range(self.random.choice((1, 1, 2, 5)))]
        self.ask("POST", f"/v0/topics/{TOPIC}", {"records": [{"data": each} for each in data]})
        self.evidence.sites.acked[self.site] += data


class Sites:
    """The other server, and the mirror. The run starts both again when they end (`run_again`)."""

    def __init__(self, instance: Instance, folder: Path, evidence: Evidence) -> None:
        folder.mkdir(mode=0o711)
        (folder / "data").mkdir(mode=0o711)
        (folder / "mirror").mkdir()
        self.evidence, self.folder = evidence, folder
        self.other = Instance(folder / "data", free_port(), {"WEB_WORKERS": "1", "TOPICS_PROCESSES": ""})
        self.instances = {HERE: instance, THERE: self.other}
        self.mirror: Mirroring | None = None

    def begin(self) -> None:
        self.other.start()
        for each in self.instances.values():
            assert Client(each.port).call("PUT", f"/v0/topics/{TOPIC}", CONFIG).status == 201
        self.start_mirror()

    def writers(self, stage: Stage) -> list[Hand]:
        return [SiteWriter(stage, site, each.port) for site, each in self.instances.items()]

    def start_mirror(self) -> None:
        here, there = self.instances.items()
        self.mirror = Mirroring(self.folder / "mirror", here, there, TOPIC)

    def run_again(self) -> None:
        if self.other.exited() is not None:
            self.other.run()
        if self.mirror is not None and (code := self.mirror.process.poll()) is not None:
            said = self.mirror.lines[-1:] or ["nothing"]
            self.evidence.trouble("the mirror", f"it ended with {code} and said: {said[0]}")
            self.start_mirror()

    # -- Faults --------------------------------------------------------------------------------------------------------

    def kill_mirror(self) -> None:
        """Its process. The next one starts at once, while calls of the killed one may be under way."""
        if self.mirror is not None:
            self.mirror.kill()
            self.start_mirror()

    def freeze_mirror(self) -> Callable[[], bool]:
        assert self.mirror is not None
        process = self.mirror.process
        process.send_signal(signal.SIGSTOP)

        def thaw() -> bool:
            process.send_signal(signal.SIGCONT)  # does nothing if another fault has killed it
            return True

        return thaw

    def kill_other(self) -> None:
        self.other.kill()
        self.other.run()

    # -- The end -------------------------------------------------------------------------------------------------------

    def look(self, patience: float) -> None:
        """Reads the topic at both sites, and waits as long as records arrive that one of them lacks."""
        deadline, most = time.monotonic() + patience, 0
        while True:
            for site, each in self.instances.items():
                self.evidence.sites.logs[site] = [record["data"] for record in read(Client(each.port), TOPIC)]
            logs = self.evidence.sites.logs
            if set(logs[HERE]) == set(logs[THERE]) or time.monotonic() > deadline:
                return
            if (count := sum(map(len, logs.values()))) > most:
                most, deadline = count, time.monotonic() + patience
            time.sleep(0.5)

    def end(self) -> None:
        if self.mirror is not None:
            self.mirror.kill()
        self.other.end()
