"""`make crash-failover`: two gateways over a live server, a spare and a witness. It ends with 1 if something broke.

First a primary is restored from a backup under a DuplicateRouter. Then faults come in an order that the seed decides, while
clients write through both gateways of a FailoverRouter: the clock of the witness steps, the live server stands still, the
configuration changes one gateway after the other, and the witness loses its decisions. At the end the logs of both servers
say who wrote when.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from tests.crash.harness.clock import Clock, NoClock
from tests.crash.harness.gateway_oracle import Acked, FailoverEvidence, Stored, failover_faults
from tests.crash.harness.scene import Broken, Say, Scene, folder_of_servers, frozen, judge, main
from tests.gateway.running import Client, Running, cluster, route
from tests.instances import Instance, free_port, until

TOPIC, COPIED = "orders", "ledger"
THROUGH_FAILOVER, THROUGH_DUPLICATE = "127.0.0.1", "localhost"
SERVERS = ("first", "second", "witness")
LEASES = (500, 1000, 2000)  # ms
WITHIN = 30.0  # seconds until writes continue


def configuration(ports: dict[str, int], lease_ms: int) -> dict[str, Any]:
    failover = {"live": "first", "spare": "second", "witness": "witness", "decisionTopic": "live", "leaseMs": lease_ms}
    duplicate = {"primary": "second", "copies": ["witness"], "topics": [COPIED]}
    return {
        "clusterDefinitions": [cluster(name, port) for name, port in ports.items()],
        "routerDefinitions": [
            {
                "name": "dr",
                "type": "FailoverRouter",
                "config": {**failover, "switch": "health", "afterMs": 3000},
                "routes": [route(name, number, cluster=name) for number, name in enumerate(SERVERS)],
            },
            {
                "name": "twice",
                "type": "DuplicateRouter",
                "config": duplicate,
                "routes": [route(name, number, cluster=name) for number, name in enumerate(SERVERS[1:])],
            },
        ],
        "virtualClusters": [
            {"name": "live", "gateways": [{"host": THROUGH_FAILOVER}], "target": {"router": "dr"}},
            {"name": "copied", "gateways": [{"host": THROUGH_DUPLICATE}], "target": {"router": "twice"}},
        ],
    }


class Failover(Scene):
    """The servers, the gateways and the clients. `acked`: what clients were told, by thread."""

    def __init__(self, folder: Path, chance: Random, stack: ExitStack, say: Say) -> None:
        super().__init__(folder, chance, stack)
        self.say = say
        self.ports = {name: free_port() for name in SERVERS}
        self.clock = self.a_clock()
        self.servers = {name: self.server(name) for name in SERVERS}
        self.gateways = [self.gateway(number) for number in range(2)]
        self.live = "first"
        self.stopping = threading.Event()
        self.acked: list[list[Acked]] = [[], []]
        self.refused = ["", ""]  # the last refusal of each gateway
        self.numbers = itertools.count()

    def a_clock(self) -> Clock | None:
        try:
            return Clock(self.folder)
        except NoClock as error:
            self.say(f"left out, the clock: {error}")
            return None

    def server(self, name: str) -> Instance:
        has_clock = self.clock is not None and name == "witness"  # a preloaded process does not load the clock
        settings = self.clock.environment if self.clock is not None and has_clock else {}
        return self.start_server(name, self.ports[name], settings, preloaded=not has_clock)

    def gateway(self, number: int) -> Running:
        return self.start_gateway(number, configuration(self.ports, self.chance.choice(LEASES)))

    # -- Clients -------------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.write, args=(number,)) for number in range(len(self.gateways))]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join()

    @contextmanager
    def outputs_of_a_failure(self) -> Iterator[None]:
        try:
            yield
        except AssertionError:
            for gateway, refused in zip(self.gateways, self.refused, strict=True):
                self.say(
                    f"the last lines of {gateway.folder.name}:\n{gateway.output[-2000:]}\nIts last refusal: {refused}"
                )
            raise

    def write(self, number: int) -> None:
        client = Client(self.gateways[number].port, THROUGH_FAILOVER)
        while not self.stopping.wait(0.01):
            data = next(self.numbers)
            try:
                reply = client.append(TOPIC, data)
            except OSError:  # the gateway starts again
                client.close()
                client = Client(self.gateways[number].port, THROUGH_FAILOVER)
                continue
            if reply.status in (200, 201):
                self.acked[number].append(Acked(data, reply.json["seqs"][0]))
            else:
                self.refused[number] = reply.json["error"]["message"]
        client.close()

    def wait_for_writes(self, server: str) -> float:
        """Waits until both gateways write to this server. Returns the seconds."""
        began = time.monotonic()
        with closing(Client(self.ports[server])) as client:
            for number, acked in enumerate(self.acked):
                before = len(acked)
                until(
                    lambda acked=acked, before=before: is_stored(client, acked[before:]),
                    f"writes of gateway {number} at {server}",
                    WITHIN,
                )
        self.live = server
        return time.monotonic() - began

    @property
    def other(self) -> str:
        return "second" if self.live == "first" else "first"

    def decide(self, live: str) -> None:
        with closing(Client(self.ports["witness"])) as client:
            assert client.append("live", {"live": live}).status in (200, 201)

    def evidence(self, switches: int) -> FailoverEvidence:
        acked = {each.number for of_gateway in self.acked for each in of_gateway}
        stored = [
            Stored(each["$ts"], server, each["data"])
            for server in ("first", "second")
            for each in records(self.ports[server], TOPIC)
        ]
        return FailoverEvidence(acked, stored, switches)

    # -- Faults --------------------------------------------------------------------------------------------------------

    def restore_the_primary(self) -> str:
        """A backup of the copies' primary, more records, the backup again, and other records."""
        primary, backup = self.servers["second"], self.folder / "backup"
        client = Client(self.gateways[0].port, THROUGH_DUPLICATE)

        def fill(first: int, count: int) -> None:
            until(lambda: client.append(COPIED, *range(first, first + count)).status in (200, 201), "the primary")

        def copied() -> list[int]:
            return [each["data"] for each in records(self.ports["witness"], COPIED)]

        fill(0, 100)
        until(lambda: len(copied()) == 100, "the copy")
        primary.stop()
        subprocess.run(["cp", "-a", primary.data, backup], check=True)
        primary.start()
        fill(100, 200)
        until(lambda: len(copied()) == 300, "the copy to follow")
        before = copied()
        primary.stop()
        shutil.rmtree(primary.data)
        backup.rename(primary.data)
        primary.start()
        fill(1000, self.chance.choice((1, 500)))
        differing = {"virtual_cluster": "copied", "router": "twice", "route": "witness"}
        until(
            lambda: client.metric("topics_gateway_copy_differing_topics", **differing) == 1, "the difference to be told"
        )
        client.close()
        if copied() != before:
            raise Broken("the copy of a restored primary was changed")
        return "the difference was told"

    def step_the_clock(self) -> str:
        seconds = self.chance.choice((-90, -15, 15, 90))
        if self.clock is not None:
            self.clock.step(seconds)
        self.decide(self.other)
        took = self.wait_for_writes(self.other)
        return f"the clock of the witness is {seconds} s off; writes at {self.live} after {took:.1f} s"

    def freeze_the_live_server(self) -> str:
        with frozen(self.servers[self.live].pids()):
            took = self.wait_for_writes(self.other)
        return f"writes at {self.live} after {took:.1f} s"

    def change_the_configuration(self) -> str:
        """One gateway after the other, by a hot reload or a kill. The decision comes while the gateways differ."""
        leases = [self.chance.choice(LEASES) for _ in self.gateways]
        wanted = self.other
        for number, gateway in enumerate(self.gateways):
            gateway.write(configuration(self.ports, leases[number]))
            if self.chance.random() < 0.5:
                gateway.signal(signal.SIGHUP)
            else:
                gateway.signal(signal.SIGKILL)
                assert gateway.process is not None
                gateway.process.wait()
                gateway.start()
            if number == 0:
                self.decide(wanted)
        return f"leases of {leases} ms; writes at {wanted} after {self.wait_for_writes(wanted):.1f} s"

    def lose_the_decisions(self) -> str:
        witness = self.servers["witness"]
        witness.end()
        shutil.rmtree(witness.data)
        self.servers["witness"] = self.server("witness")
        return f"writes again at {self.live} after {self.wait_for_writes(self.live):.1f} s"

    def freeze_a_gateway(self) -> str:
        """The decision comes while one gateway stands still, in the middle of a write."""
        gateway = self.chance.choice(self.gateways)
        gateway.signal(signal.SIGSTOP)
        self.decide(self.other)
        time.sleep(self.chance.uniform(0, 5))
        gateway.signal(signal.SIGCONT)
        return f"writes at {self.other} after {self.wait_for_writes(self.other):.1f} s"


FAULTS = (
    Failover.step_the_clock,
    Failover.freeze_the_live_server,
    Failover.change_the_configuration,
    Failover.lose_the_decisions,
    Failover.freeze_a_gateway,
)


def is_stored(client: Client, acked: list[Acked]) -> bool:
    """Returns whether the server has the newest of these records."""
    if not acked:
        return False
    reply = client.get(f"/v0/topics/{TOPIC}/records/{acked[-1].seq}")
    return reply.status == 200 and bool(reply.json["data"] == acked[-1].number)


def records(port: int, topic: str) -> list[dict[str, Any]]:
    found, seq = list[dict[str, Any]](), 0
    with closing(Client(port)) as client:
        while True:
            page = client.post(f"/v0/topics/{topic}/diff", {"from_seq": seq, "limit": 1000}).json
            found += page.get("records", [])
            if page.get("caught_up", True):
                return found
            seq = page["next_from_seq"]


def run(seed: int, faults: int, say: Say) -> str:
    """Returns what was done. Raises Broken, or AssertionError if writes did not continue."""
    chance = Random(seed)
    with folder_of_servers() as (folder, stack):
        scene = Failover(folder, chance, stack, say)
        say("three servers and two gateways run")
        say(f"restore_the_primary: {scene.restore_the_primary()}")
        order = [fault for _ in range(faults // len(FAULTS) + 1) for fault in chance.sample(FAULTS, len(FAULTS))]
        switches = 0
        with scene.writing(), scene.outputs_of_a_failure():
            scene.decide("first")  # on a busy machine, the gateways may have switched meanwhile
            scene.wait_for_writes("first")
            for fault in order[:faults]:
                before = scene.live
                say(f"{fault.__name__}: {fault(scene)}")
                switches += scene.live != before
        evidence = scene.evidence(switches)
        judge(failover_faults(evidence))
        return f"{len(evidence.acked)} acked records, {switches} switches"


if __name__ == "__main__":
    sys.exit(main(run, "make crash-failover", __doc__, "faults", 7))
