"""`make crash-moves`: topics move to another server under faults. It ends with 1 if something broke.

Each round moves a log and a queue with `topics gateway migrate`, while clients of two gateways append, read and work. Meanwhile
the command is killed, a server with its PostgreSQL is killed or stands still, and a gateway is killed or stands still. At the
end of a round, the new server must have each acked record at its seq, once. A reader must have seen each record once and in
order. Each job must be done, and no two workers may have held it at once.
"""

from __future__ import annotations

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
from typing import Any

from tests.crash.harness.failover import records
from tests.crash.harness.gateway_oracle import Done, Held, MoveEvidence, client_faults, move_faults
from tests.crash.harness.scene import Broken, Say, Scene, folder_of_servers, frozen, judge, main
from tests.gateway.running import Client
from tests.gateway.streams import Stream
from tests.gateway.test_migrate_router import command, migrating
from tests.instances import free_port, until

WITHIN = 120.0  # seconds until a move has ended, and its clients continue
LEASE_MS = 3_000
FLUSHED = {"durability": "fsync"}


class Moves(Scene):
    """The servers, the gateways, and the evidence of one round, to which its clients only add."""

    def __init__(self, folder: Path, chance: Random, stack: ExitStack, rounds: int) -> None:
        super().__init__(folder, chance, stack)
        self.servers = [self.start_server(name, free_port()) for name in ("old", "new")]
        self.topics = [f"{kind}-{number}" for number in range(rounds) for kind in ("log", "jobs")]
        configuration = migrating(*(server.port for server in self.servers), *self.topics)
        self.gateways = [self.start_gateway(number, configuration) for number in range(2)]
        self.begin("", "")

    def begin(self, log: str, queue: str) -> None:
        self.log, self.queue = log, queue
        self.stopping = threading.Event()
        self.evidence = MoveEvidence()

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
            self.evidence.failed.append(f"client {number}: {traceback.format_exc()}")

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
            if reply is not None:
                self.evidence.acked |= set(zip(reply["seqs"], data, strict=True))
            turn += 2  # the last record of a batch is the first of the next

    def produce(self, number: int) -> None:
        for turn in range(10**6):
            if self.stopping.wait(0.02):
                return
            body = {"records": [{"data": f"job:{turn}"}], "idempotency_key": f"{self.queue}:{turn}"}
            if self.ask(number, f"/v0/topics/{self.queue}", body) is not None:
                self.evidence.sent.add(f"job:{turn}")

    def work(self, number: int) -> None:
        """Claims jobs, acks most of them, and leaves others until their lease ends."""
        node, path, chance = f"worker-{number}", f"/v0/topics/{self.queue}", Random(number)
        while not self.stopping.wait(0.02):
            found = self.ask(number, f"{path}/claim", {"node": node, "max": 5, "lease_ms": LEASE_MS})
            jobs = found["claimed"] if found else []
            # An answer may come late, even after the end of its lease. Only the deadline tells when the claim was.
            held = [
                Held(job["$seq"], node, (job["deadline"] - LEASE_MS) / 1000, job["deadline"] / 1000) for job in jobs
            ]
            self.evidence.held += held
            if jobs and chance.random() < 0.8:
                asked = {"node": node, "seqs": [j["$seq"] for j in jobs], "lease_ids": [j["lease_id"] for j in jobs]}
                began = time.time()
                self.evidence.asked |= {job["data"] for job in jobs}
                settled = self.ask(number, f"{path}/ack", asked)
                for job, claim in zip(jobs, held, strict=True) if settled else ():
                    if claim.seq not in settled["skipped"]:
                        self.evidence.done.append(Done(job["data"], claim, began))

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
                            self.evidence.other.append((last, told))
                        else:
                            self.evidence.shown.append(told["$seq"])
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
        evidence = self.evidence
        with self.clients():
            self.wait_for_work(0, 0, "the first records and jobs")
            told = [self.move(topic, faults[place::2]) for place, topic in enumerate((self.log, self.queue))]
            self.wait_for_work(len(evidence.acked), len(evidence.done), "work after the moves")
        evidence.log = [(each["$seq"], each["data"]) for each in records(self.servers[1].port, self.log)]
        evidence.left = {each["data"] for each in records(self.servers[1].port, self.queue)}
        judge(move_faults(evidence))
        return f"{'; '.join(told)}. {len(evidence.acked)} records, {len(evidence.done)} jobs"

    def wait_for_work(self, acked: int, done: int, what: str) -> None:
        """Waits until clients have more than 50 records and 10 jobs more than these."""
        evidence = self.evidence
        until(lambda: len(evidence.acked) > acked + 50 and len(evidence.done) > done + 10, what, WITHIN)


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
                say(json.dumps(list(client_faults(scene.evidence))[:5])[:3000])
                raise
    return f"{rounds} rounds"


if __name__ == "__main__":
    sys.exit(main(run, "make crash-moves", __doc__, "rounds", 3))
