"""A process of `topics mirror` between two instances, and the records that its sites must have."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from tests.api.clients import HttpClient
from tests.instances import ROOT, Instance, until
from tests.preloaded import begin

SECONDS = 60


class Mirroring:
    """`topics mirror` from `here` to `there`, each a name and an instance. Its lines are in a file. `here_url`: of a proxy."""

    def __init__(
        self,
        folder: Path,
        here: tuple[str, Instance],
        there: tuple[str, Instance],
        *arguments: str,
        here_url: str | None = None,
    ) -> None:
        self.output = folder / f"{here[0]}-{there[0]}-{len(list(folder.iterdir()))}"
        self.output.touch()
        names = "--here", here[0], "--there", there[0]
        command = [sys.executable, str(ROOT / "manage.py"), "topics", "mirror", there[1].url, *names, *arguments]
        self.process = begin(command, {**os.environ, "TOPICS_URL": here_url or here[1].url}, folder, self.output)

    @property
    def lines(self) -> list[str]:
        return self.output.read_text().splitlines()

    def says(self, text: str, times: int = 1) -> bool:
        return sum(text in line for line in self.lines) >= times

    def runs(self) -> None:
        until(lambda: self.says("runs, from seq", 2) or self.process.poll() is not None, "the mirror to run")
        assert self.process.poll() is None, self.lines

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(SECONDS) == 0, self.lines

    def refuses(self) -> str:
        """Waits for the end of a mirror that cannot work. Returns its only line."""
        until(lambda: self.process.poll() is not None, f"the mirror to end: {self.output}")
        assert self.process.poll() == 1
        (line,) = self.lines
        return line

    def finish(self) -> list[str]:
        """Waits for the end of a mirror with --once. Returns its lines."""
        assert self.process.wait(SECONDS) == 0, self.lines
        return self.lines


class Writer(threading.Thread):
    """Appends records n = 0, 1, 2, … in batches of changing size until it is stopped, as a site does."""

    def __init__(self, at: Instance, site: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.client, self.site, self.topic = HttpClient(at.port), site, topic
        self.count, self.stopping = 0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self.stopping.wait(0.002):
            size = 1 + self.count % 7
            records = [
                {"data": {"site": self.site, "n": n}, "node": self.site, "tag": f"t{n % 3}", "meta": {"n": n}}
                for n in range(self.count, self.count + size)
            ]
            assert self.client.post(f"/v0/topics/{self.topic}", {"records": records}).status in (200, 201)
            self.count += size

    def end(self) -> int:
        self.stopping.set()
        self.join()
        return self.count


def records(at: Instance, topic: str) -> list[Any]:
    """Returns all records of a topic, none of an absent one."""
    client, seq, found = HttpClient(at.port), 0, []
    while True:
        answer = client.diff(topic, from_seq=seq, limit=1000, include_tags=True)
        if answer.status == 404:
            return []
        window = answer.json
        found += window["records"]
        seq = window["next_from_seq"]
        if window["caught_up"]:
            return found


def check_site(at: Instance, topic: str, written: dict[str, int]) -> None:
    """Makes sure that the topic has each record of each site once, in the site's order, as it was written."""
    numbers: dict[str, list[int]] = {site: [] for site in written}
    for each in records(at, topic):
        site, n = each["data"]["site"], each["data"]["n"]
        assert (each["$node"], each["$tag"], each["meta"]["n"]) == (site, f"t{n % 3}", n)
        numbers[site].append(n)
    for site, count in written.items():
        assert numbers[site] == list(range(count)), f"{site} at {at.port}"
