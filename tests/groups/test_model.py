"""Members as processes that come, leave, are killed and are frozen, while records arrive. Afterwards their logs must show:

- no record is skipped: a member got each record, and its commit of it was accepted
- the records of a share come in order within a generation
- no record is shown to two live owners: before another member gets a record again, its first owner has died, was frozen, has
  left or has lost its stream
- a commit of an earlier owner is refused: no accepted commit is above the cursor with which the next owner starts
"""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.instances import Instance, until
from tests.watch.wire import Api

SESSION_MS = 1000
PARTITIONS = 16
WORKER = Path(__file__).parent / "worker.py"


class Team:
    """The members of a group, and when each could no longer do anything."""

    def __init__(self, port: int, topic: str, folder: Path) -> None:
        self.port, self.topic, self.folder = port, topic, folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.deaths: dict[str, list[float]] = defaultdict(list)
        self.started = 0

    def add(self) -> None:
        name = f"m{self.started}"
        self.started += 1
        arguments = [str(self.port), self.topic, "team", name, str(SESSION_MS), str(self.folder / name)]
        self.running[name] = subprocess.Popen([sys.executable, "-S", str(WORKER), *arguments])

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.deaths[name].append(time.monotonic())
        self.running.pop(name).wait()

    def freeze(self, name: str) -> None:
        """Freezes a member until its session has ended, and thaws it."""
        self.running[name].send_signal(signal.SIGSTOP)
        self.deaths[name].append(time.monotonic())
        until(lambda: name not in self.members(), "the frozen member's session to end")
        self.running[name].send_signal(signal.SIGCONT)

    def state(self) -> Any:
        return Api(self.port).done("GET", f"/v0/topics/{self.topic}/groups/team")

    def members(self) -> set[str]:
        return {each["member"] for each in self.state()["members"]}

    def leave(self, name: str) -> None:
        self.running[name].terminate()
        self.running.pop(name).wait(30)

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def lines(self) -> list[dict[str, Any]]:
        """The log lines of all members, in the order of time. A line that a kill has cut is left out."""
        found = []
        for file in self.folder.iterdir():
            for line in file.read_text().splitlines():
                found.append({"member": file.name, **json.loads(line)})
        return sorted(found, key=lambda line: line["at"])


@pytest.fixture
def team(instances: Callable[..., Instance], tmp_path: Path) -> Iterator[Team]:
    instance = instances(WEB_WORKERS="2")
    Api(instance.port).done("PUT", "/v0/topics/work", {})
    team = Team(instance.port, "work", tmp_path)
    yield team
    team.end()


def produce(api: Api, stop: threading.Event) -> None:
    while not stop.is_set():
        api.append("work", *({"data": n, "tag": f"t{n % 100}"} for n in range(50)))
        stop.wait(0.05)


def test_members_that_die_and_freeze_lose_no_record(team: Team) -> None:
    api, choose, stop = Api(team.port), random.Random(45), threading.Event()
    api.stream(f"/v0/topics/work/groups/team/stream?partitions={PARTITIONS}&member=first&session_ms=1000").close()
    producer = threading.Thread(target=produce, args=(api, stop))
    producer.start()
    try:
        for _ in range(4):
            team.add()
        for step in ("add", "freeze", "kill", "leave", "add", "add", "freeze", "kill", "add", "leave", "add"):
            time.sleep(0.4)
            name = choose.choice(sorted(team.running))
            if step == "add":
                team.add()
            else:
                getattr(team, step)(name)
    finally:
        stop.set()
        producer.join()
    until(lambda: team.state()["lag"] == 0, "the group to reach the head", seconds=30)
    head = api.done("GET", "/v0/topics/work")["head_seq"]
    check(team.lines(), team.deaths, team.state()["shares"], head)


def check(lines: list[dict[str, Any]], deaths: dict[str, list[float]], shares: list[Any], head: int) -> None:
    """`shares`: the last state of the shares."""
    shown: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)  # by share and generation
    tried: dict[tuple[int, int], int] = defaultdict(int)
    committed: dict[tuple[int, int], int] = defaultdict(int)
    begun = {
        (each["share"], each["generation"] + 1): each["seq"] for each in shares
    }  # what a next owner would begin with
    for line in lines:
        if line["what"] == "assigned":
            begun |= {(each["share"], each["generation"]): each["seq"] for each in line["shares"]}
        elif line["what"] == "shown":
            shown[line["share"], line["generation"]].append(line)
        elif line["what"] in ("commits", "committed"):
            seqs = tried if line["what"] == "commits" else committed
            for each in line["shares"]:
                key = each["share"], each["generation"]
                seqs[key] = max(seqs[key], each["seq"])
    for key in shown:
        # A member that was killed during a commit does not know its outcome. The cursor of the next owner tells.
        later = [begin for (share, generation), begin in begun.items() if share == key[0] and generation > key[1]]
        committed[key] = max(committed[key], min(tried[key], *later))
    done = {seq for key, events in shown.items() for each in events for seq in each["seqs"] if seq <= committed[key]}
    assert set(range(1, head + 1)) - done == set()
    for key, events in shown.items():
        seqs = [seq for each in events for seq in each["seqs"]]
        assert seqs == sorted(set(seqs)), key
        assert len({each["session"] for each in events}) == 1, key
    for (share, generation), seq in committed.items():
        later = [begin for (number, other), begin in begun.items() if number == share and other > generation]
        assert all(seq <= begin for begin in later), (share, generation)
    assert shown_twice(shown, end_of_sessions(lines, deaths)) == []


def end_of_sessions(lines: list[dict[str, Any]], deaths: dict[str, list[float]]) -> dict[int, float]:
    """Returns when each session's member died, was frozen, left, or lost its stream."""
    joined = {line["session"]: line for line in lines if line["what"] == "joined"}
    ends = {}
    for session, begin in joined.items():
        over = [line["at"] for line in lines if line["what"] == "ended" and line["session"] == session]
        over += [at for at in deaths[begin["member"]] if at > begin["at"]]
        ends[session] = min(over, default=float("inf"))
    return ends


def shown_twice(shown: dict[tuple[int, int], list[dict[str, Any]]], ends: dict[int, float]) -> list[Any]:
    """Returns the records that a later owner got while an earlier owner was alive."""
    first: dict[int, dict[str, Any]] = {}
    found = []
    for _, events in sorted(shown.items()):
        for event in events:
            for seq in event["seqs"]:
                before = first.setdefault(seq, event)
                if before["session"] != event["session"] and ends[before["session"]] > event["at"]:
                    found.append((seq, before, event))
                first[seq] = event
    return found
