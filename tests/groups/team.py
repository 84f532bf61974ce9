"""Members of a group as processes that come, leave, are killed and are frozen, and the rules that their logs must obey."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from base.processes import die_with_parent
from tests.deadlines import DEADLINE
from tests.instances import until
from tests.watch.wire import Api

SESSION_MS = 1000
STREAM = ["-S", str(Path(__file__).parent / "worker.py")]  # a member with a stream
SOCKET = ["-m", "tests.sockets.worker"]  # a member on a WebSocket
Key = tuple[int, int]  # a share and a generation
Line = dict[str, Any]


class Team:
    """The members of a group, and when each could no longer do anything."""

    group = "team"

    def __init__(self, port: int, topic: str, folder: Path, programs: Sequence[list[str]] = (STREAM,)) -> None:
        """The members run these programs in turn."""
        self.port, self.topic, self.folder, self.programs = port, topic, folder, programs
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.deaths: dict[str, list[float]] = defaultdict(list)
        self.started = 0

    def add(self) -> None:
        name, program = f"m{self.started}", self.programs[self.started % len(self.programs)]
        self.started += 1
        arguments = [str(self.port), self.topic, self.group, name, str(SESSION_MS), str(self.folder / name)]
        parent = os.getpid()
        self.running[name] = subprocess.Popen(
            [sys.executable, *program, *arguments], preexec_fn=lambda: die_with_parent(parent)
        )

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
        return Api(self.port).done("GET", f"/v0/topics/{self.topic}/groups/{self.group}")

    def members(self) -> set[str]:
        return {each["member"] for each in self.state()["members"]}

    def leave(self, name: str) -> None:
        self.running[name].terminate()
        self.running[name].wait(DEADLINE)
        del self.running[name]

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


def broken(lines: list[Line], shares: list[Any], there: set[int]) -> Iterator[str]:
    """Yields the broken promises, but for records shown to two owners. `shares`: their last state. `there`: the records' seqs."""
    shown: dict[Key, list[Line]] = shown_in(lines)
    tried: dict[Key, int] = defaultdict(int)
    committed: dict[Key, int] = defaultdict(int)
    begun = {
        (each["share"], each["generation"] + 1): each["seq"] for each in shares
    }  # what a next owner would begin with
    for line in lines:
        if line["what"] == "assigned":
            begun |= {(each["share"], each["generation"]): each["seq"] for each in line["shares"]}
        elif line["what"] in ("commits", "committed"):
            cursors = tried if line["what"] == "commits" else committed
            for each in line["shares"]:
                key = each["share"], each["generation"]
                cursors[key] = max(cursors[key], each["seq"])
    for key in shown:
        # A member that was killed during a commit does not know its outcome. The cursor of the next owner tells.
        later = [begin for (share, generation), begin in begun.items() if share == key[0] and generation > key[1]]
        committed[key] = max(committed[key], min(tried[key], *later))
    done = {seq for key, events in shown.items() for each in events for seq in each["seqs"] if seq <= committed[key]}
    if missing := sorted(there - done):
        yield f"{len(missing)} records were skipped, first seq {missing[0]}"
    for key, events in shown.items():
        seqs = [seq for each in events for seq in each["seqs"]]
        if seqs != sorted(set(seqs)):
            yield f"the records of share {key[0]}, generation {key[1]}, came out of order or twice"
        if len({each["session"] for each in events}) > 1:
            yield f"share {key[0]}, generation {key[1]}, had two owners"
    for (share, generation), seq in committed.items():
        later = [begin for (number, other), begin in begun.items() if number == share and other > generation]
        if any(seq > begin for begin in later):
            yield f"share {share}, generation {generation}, was committed up to {seq}, and a later owner began at {min(later)}"


def shown_in(lines: list[Line]) -> dict[Key, list[Line]]:
    found: dict[Key, list[Line]] = defaultdict(list)
    for line in lines:
        if line["what"] == "shown":
            found[line["share"], line["generation"]].append(line)
    return found


def end_of_sessions(lines: list[Line], deaths: dict[str, list[float]]) -> dict[int, float]:
    """Returns when each session's member died, was frozen, left, or lost its stream."""
    joined = {line["session"]: line for line in lines if line["what"] == "joined"}
    ends = {}
    for session, begin in joined.items():
        over = [line["at"] for line in lines if line["what"] == "ended" and line["session"] == session]
        over += [at for at in deaths[begin["member"]] if at > begin["at"]]
        ends[session] = min(over, default=float("inf"))
    return ends


def accepted_commits(lines: list[Line]) -> dict[int, list[float]]:
    """Returns when each session sent the commits that were accepted."""
    sent: dict[int, float] = {}
    found: dict[int, list[float]] = defaultdict(list)
    for line in lines:
        if line["what"] == "commits":
            sent[line["session"]] = line["at"]
        elif line["what"] == "committed":
            found[line["session"]].append(sent[line["session"]])
    return found


def shown_twice(lines: list[Line], deaths: dict[str, list[float]], session_ms: int = SESSION_MS) -> list[Any]:
    """Returns the records that a later owner got while an earlier owner was alive.

    A member that sent no accepted commit for as long as its session may have lost its shares. It may not know yet: a slow
    machine stops a process as well as a signal does, also between its join and the line that tells of it.
    """
    ends, commits = end_of_sessions(lines, deaths), accepted_commits(lines)

    def is_alive(session: int, at: float) -> bool:
        return at < ends[session] and any(at - session_ms / 1000 < sent <= at for sent in commits[session])

    first: dict[int, Line] = {}
    found = []
    for _, events in sorted(shown_in(lines).items()):
        for event in events:
            for seq in event["seqs"]:
                before = first.setdefault(seq, event)
                if before["session"] != event["session"] and is_alive(before["session"], event["at"]):
                    found.append((seq, before, event))
                first[seq] = event
    return found
