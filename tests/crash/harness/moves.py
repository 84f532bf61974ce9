"""`make crash-moves`: topics move to another server under faults. It ends with 1 if something broke.

Each round moves a log and a queue with `topics gateway migrate`, while clients of two gateways append, read and work. Meanwhile
the command is killed, a server with its PostgreSQL is killed or stands still, and a gateway is killed or stands still. At the
end of a round, the new server must have each acked record at its seq, once. A reader must have seen each record once and in
order. Each job must be done, and no two workers may have held it at once.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPException
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.crash.harness.failover import records
from tests.crash.harness.scene import Broken, Say, Scene, folder_of_servers, frozen, main
from tests.gateway.running import Client
from tests.gateway.streams import Stream
from tests.gateway.test_migrate_router import command, migrating
from tests.instances import free_port, until

WITHIN = 120.0  # seconds until a move has ended, and its clients continue
LEASE_MS = 3_000
SLACK = 0.05  # seconds that the clock of a claim may be behind that of the lease before
FLUSHED = {"durability": "fsync"}


class Held(NamedTuple):
    """A claim of a job. `until`: its deadline, or when its ack was sent. By the server's clock, in seconds since 1970."""

    worker: str
    claimed: float
    until: float


class Moves(Scene):
    """The servers, the gateways, and what the clients of one round were told."""

    def __init__(self, folder: Path, chance: Random, stack: ExitStack, rounds: int) -> None:
        super().__init__(folder, chance, stack)
        self.servers = [self.start_server(name, free_port()) for name in ("old", "new")]
        self.topics = [f"{kind}-{number}" for number in range(rounds) for kind in ("log", "jobs")]
        configuration = migrating(*(server.port for server in self.servers), *self.topics)
        self.gateways = [self.start_gateway(number, configuration) for number in range(2)]
        self.lock = threading.Lock()
        self.begin("", "")

    def begin(self, log: str, queue: str) -> None:
        self.log, self.queue = log, queue
        self.stopping = threading.Event()
        self.acked: dict[int, str] = {}  # the data of each acked record of the log, by seq
        self.sent: set[str] = set()  # jobs whose append was acked
        self.asked: set[str] = set()  # jobs that a worker tried to ack
        self.done: dict[str, int] = {}  # the seq of each job whose ack was acked
        self.held: dict[int, list[Held]] = {}
        self.shown: list[int] = []  # the seqs that the reader of the log was sent
        self.faults: list[str] = []

    def broke(self, text: str) -> None:
        with self.lock:
            self.faults.append(text)

    # -- Clients -------------------------------------------------------------------------------------------------------

    @contextmanager
    def clients(self) -> Iterator[None]:
        work: list[Callable[[int], None]] = [self.write, self.write, self.produce, self.work, self.work, self.read]
        threads = [threading.Thread(target=self.keep, args=each) for each in enumerate(work)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join()

    def keep(self, number: int, work: Callable[[int], None]) -> None:
        try:
            work(number)
        except Exception:
            self.broke(f"client {number}: {traceback.format_exc()}")

    def ask(self, number: int, path: str, body: Any) -> Any:
        """Returns the JSON of a success, after as many attempts as it needs. None: the round ends."""
        while not self.stopping.is_set():
            try:
                with closing(Client(self.gateways[number % 2].port)) as client:
                    client.connection.timeout = 10
                    reply = client.post(path, body)
                if reply.status in (200, 201):
                    return reply.json
                if reply.status < 500 and reply.status != 429:
                    raise AssertionError(f"{path}: {reply.status} {reply.body!r}")
            except (OSError, HTTPException):
                pass  # the gateway starts again, or a server stands still
            self.stopping.wait(0.05)
        return None

    def write(self, number: int) -> None:
        """Appends batches with a key for each record, which an attempt can repeat after the move."""
        turn = 0
        while not self.stopping.wait(0.01):
            data = [f"{number}:{turn + place}" for place in range(3)]
            keys = {"idempotency_keys": [f"{self.log}:{each}" for each in data]}
            reply = self.ask(number, f"/v0/topics/{self.log}", {"records": [{"data": each} for each in data], **keys})
            for seq, each in zip(reply["seqs"] if reply else (), data, strict=bool(reply)):
                with self.lock:
                    if self.acked.setdefault(seq, each) != each:
                        self.faults.append(f"seq {seq} was acked for {self.acked[seq]} and for {each}")
            turn += 2  # the last record of a batch is the first of the next

    def produce(self, number: int) -> None:
        for turn in range(10**6):
            if self.stopping.wait(0.02):
                return
            body = {"records": [{"data": f"job:{turn}"}], "idempotency_key": f"{self.queue}:{turn}"}
            if self.ask(number, f"/v0/topics/{self.queue}", body) is not None:
                self.sent.add(f"job:{turn}")

    def work(self, number: int) -> None:
        """Claims jobs, acks most of them, and leaves others until their lease ends."""
        node, path, chance = f"worker-{number}", f"/v0/topics/{self.queue}", Random(number)
        while not self.stopping.wait(0.02):
            found = self.ask(number, f"{path}/claim", {"node": node, "max": 5, "lease_ms": LEASE_MS})
            jobs = found["claimed"] if found else []
            with self.lock:
                for job in jobs:
                    # An answer may come late, even after the end of its lease. Only the deadline tells when the claim was.
                    deadline = job["deadline"] / 1000
                    held = Held(node, deadline - LEASE_MS / 1000, deadline)
                    self.held.setdefault(job["$seq"], []).append(held)
            if jobs and chance.random() < 0.8:
                asked = {"node": node, "seqs": [j["$seq"] for j in jobs], "lease_ids": [j["lease_id"] for j in jobs]}
                began = time.time()
                self.asked |= {job["data"] for job in jobs}
                settled = self.ask(number, f"{path}/ack", asked)
                for job in jobs if settled else ():
                    if job["$seq"] not in settled["skipped"]:
                        self.settle(job, node, began)

    def settle(self, job: dict[str, Any], node: str, acked: float) -> None:
        with self.lock:
            seq, data = job["$seq"], job["data"]
            if data in self.done:
                self.faults.append(f"{data} was done twice, at seqs {self.done[data]} and {seq}")
            self.done[data] = seq
            self.held[seq] = [
                each._replace(until=acked) if each.worker == node and each.until == job["deadline"] / 1000 else each
                for each in self.held[seq]
            ]

    def read(self, number: int) -> None:
        """Follows the log over each cut, from the last id."""
        last = ""
        while not self.stopping.is_set():
            headers = [f"last-event-id: {last}"] if last else []
            try:
                with closing(
                    Stream(self.gateways[number % 2], f"/v0/topics/{self.log}/events?from_seq=0", *headers)
                ) as stream:
                    stream.opened.settimeout(2)
                    while not self.stopping.is_set():
                        told = stream.event("message", "stream-reset", "stream-error")
                        if "$seq" not in told:
                            self.broke(f"the reader behind {last!r} was sent {told}")
                        else:
                            self.shown.append(told["$seq"])
                        last = stream.id
            except (OSError, EOFError, ValueError, IndexError):
                self.stopping.wait(0.1)

    # -- Faults --------------------------------------------------------------------------------------------------------

    def kill_a_server(self) -> None:
        server = self.chance.choice(self.servers)
        server.kill()
        server.start()

    def freeze_a_server(self) -> None:
        self.freeze(self.chance.choice(self.servers).pids())

    def kill_a_gateway(self) -> None:
        gateway = self.chance.choice(self.gateways)
        gateway.signal(signal.SIGKILL)
        assert gateway.process is not None
        gateway.process.wait()
        gateway.start(ready=False)

    def freeze_a_gateway(self) -> None:
        gateway = self.chance.choice(self.gateways)
        assert gateway.process is not None
        self.freeze([gateway.process.pid])

    def freeze(self, pids: list[int]) -> None:
        with frozen(pids):
            time.sleep(self.chance.uniform(0.5, 4))

    # -- A round -------------------------------------------------------------------------------------------------------

    def move(self, topic: str, faults: list[Callable[[Moves], None]]) -> str:
        """Moves a topic with these faults in between. Each kills the command, and another continues the move."""
        gateway, told = self.gateways[0], list[str]()
        for fault in faults:
            run = subprocess.Popen(
                command(gateway, topic), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder
            )
            time.sleep(self.chance.uniform(0.3, 2.5))
            fault(self)
            run.kill()
            run.communicate()
            told.append(fault.__name__)
        ended = ""

        def has_moved() -> bool:
            nonlocal ended
            done = subprocess.run(command(gateway, topic), capture_output=True, text=True, check=False)
            ended = done.stdout + done.stderr
            return done.returncode == 0

        try:
            until(has_moved, f"the move of {topic}", WITHIN)
        except AssertionError as error:
            raise AssertionError(f"{error}. The last attempt: {ended}") from error
        return ", ".join(told) or "no fault"

    def round(self, number: int, faults: list[Callable[[Moves], None]]) -> str:
        self.begin(*self.topics[2 * number : 2 * number + 2])
        with closing(Client(self.gateways[0].port)) as client:
            queue = {"type": "queue", "leases_durable": True}
            for topic, config in ((self.log, FLUSHED), (self.queue, {**FLUSHED, **queue})):
                until(
                    lambda topic=topic, config=config: client.call("PUT", f"/v0/topics/{topic}", config).status < 300,
                    topic,
                )
        with self.clients():
            until(lambda: len(self.acked) > 50 and len(self.done) > 10, "the first records and jobs", WITHIN)
            told = [self.move(topic, faults[place::2]) for place, topic in enumerate((self.log, self.queue))]
            acked, done = len(self.acked), len(self.done)
            until(lambda: len(self.acked) > acked + 50 and len(self.done) > done + 10, "work after the moves", WITHIN)
        self.judge()
        return f"{'; '.join(told)}. {len(self.acked)} records, {len(self.done)} jobs"

    def judge(self) -> None:
        """Raises Broken."""
        stored = records(self.servers[1].port, self.log)
        by_seq = {each["$seq"]: each["data"] for each in stored}
        if lost := {seq: data for seq, data in self.acked.items() if by_seq.get(seq) != data}:
            self.faults.append(f"{len(lost)} acked records are missing or others: {dict(list(lost.items())[:5])}")
        if len(set(by_seq.values())) != len(by_seq):
            self.faults.append("a record is stored twice")
        if back := [pair for pair in itertools.pairwise(self.shown) if pair[0] >= pair[1]]:
            self.faults.append(f"the reader went back {len(back)} times, first from {back[0][0]} to {back[0][1]}")
        if unknown := set(self.shown) - set(by_seq):
            self.faults.append(f"the reader got {len(unknown)} records that are not in the log, first {min(unknown)}")
        if missing := set(range(1, max(self.shown, default=0))) & set(by_seq) - set(self.shown):
            self.faults.append(f"the reader missed {len(missing)} records, among them {min(missing)}")
        self.judge_jobs()
        if self.faults:
            raise Broken("\n".join(self.faults[:10]))

    def judge_jobs(self) -> None:
        for seq, holders in self.held.items():
            ordered = sorted(holders, key=lambda each: each.claimed)
            for first, second in itertools.pairwise(ordered):
                if second.claimed < first.until - SLACK:
                    self.faults.append(f"job {seq} was given to {first} and to {second}")
        left = {each["data"] for each in records(self.servers[1].port, self.queue)}
        if lost := self.sent - left - self.asked:
            self.faults.append(f"{len(lost)} jobs that no worker acked are not in the queue, among them {min(lost)}")
        if again := left & set(self.done):
            self.faults.append(f"{len(again)} jobs are in the queue after their ack, among them {min(again)}")


FAULTS = (Moves.kill_a_server, Moves.freeze_a_server, Moves.kill_a_gateway, Moves.freeze_a_gateway)


def run(seed: int, rounds: int, say: Say) -> str:
    """Returns what was done. Raises Broken, or AssertionError if a move or its clients did not continue."""
    chance = Random(seed)
    with folder_of_servers() as (folder, stack):
        scene = Moves(folder, chance, stack, rounds)
        say("two servers and two gateways run")
        for number in range(rounds):
            try:
                say(f"round {number}: {scene.round(number, chance.sample(FAULTS, len(FAULTS)))}")
            except (Broken, AssertionError):
                for gateway in scene.gateways:
                    say(f"the last lines of {gateway.folder.name}:\n{gateway.output[-1500:]}")
                say(json.dumps(scene.faults[:5])[:3000])
                raise
    return f"{rounds} rounds"


if __name__ == "__main__":
    sys.exit(main(run, "make crash-moves", __doc__, "rounds", 3))
