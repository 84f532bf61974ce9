"""One run: the deployment and its load, the plan's faults, and at the end all that was noted, for the oracle."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.crash.harness import bus, captures, emits, queues, sockets, storage, webhooks
from tests.crash.harness.client import Client
from tests.crash.harness.clock import Clock, NoClock
from tests.crash.harness.console import Operator
from tests.crash.harness.disk import Disk, NoDisk
from tests.crash.harness.evidence import Evidence, now
from tests.crash.harness.faults import Scene, Undo, kill_everything
from tests.crash.harness.gateway import Gateway
from tests.crash.harness.healing import Healing, Unhealed
from tests.crash.harness.load import Hand, Stage, hands
from tests.crash.harness.members import TOPIC, Members
from tests.crash.harness.plan import Step, plan
from tests.crash.harness.readers import readers
from tests.crash.harness.sites import Sites
from tests.crash.harness.topology import ROUTERS, TOPICS, TOPOLOGY
from tests.instances import Instance, free_port, until

TO_THE_HEAD = 120.0  # seconds for routers and readers, once nobody writes any more
GIVE_UP = 100.0  # seconds after that, until nobody waits for a healing any more
Say = Callable[[str], None]
Connection = psycopg.Connection[Any]


class Run:
    def __init__(self, seed: int, folder: Path, within: float, say: Say) -> None:
        """`within`: seconds after a fault is over until everything has to work again."""
        self.seed, self.within, self.say = seed, within, say
        self.evidence = Evidence(TOPOLOGY)
        self.left_out: dict[str, str] = {}  # what this machine does not have, and why
        data = folder / "data"
        data.mkdir(mode=0o711)
        folder.chmod(0o711)  # PostgreSQL is another user
        disk, clock = self.disk(data), self.clock(folder)
        processes = {"WEB_WORKERS": "2", "WORKER_PROCESSES": "2"}
        settings = {**processes, **bus.SETTINGS, **(clock.environment if clock else {})}
        self.instance = Instance(data, free_port(), settings)
        self.gateway = Gateway.of(folder / "gateway", self.instance.port)
        self.members = Members(self.instance.port, folder / "members")
        self.sites = Sites(self.instance, folder / "sites", self.evidence)
        self.scene = Scene(self.instance, self.evidence, self.gateway, self.members, self.sites, clock, disk)
        self.stage = Stage(self.instance.port, seed, self.evidence, self.gateway.port)
        self.bus = bus.Bus(self.instance.port, seed, self.evidence.bus)
        self.webhook = webhooks.Webhook(self.evidence.hook)
        self.healing = Healing(self.instance.port, self.gateway.port, self.evidence)
        self.undos: list[tuple[float, Undo]] = []  # when the faults under way end, and how
        self.healed = False  # everything has worked since the last fault

    def disk(self, folder: Path) -> Disk | None:
        try:
            return Disk(folder)
        except NoDisk as error:
            self.left_out["disk"] = str(error)
            return None

    def clock(self, folder: Path) -> Clock | None:
        try:
            return Clock(folder)
        except NoClock as error:
            self.left_out["clock"] = str(error)
            return None

    def go(self, faults: int) -> Evidence:
        """The whole run. The evidence is complete when this returns."""
        for what, why in self.left_out.items():
            self.say(f"left out, the {what}: {why}")
        self.instance.start()
        self.set_up()
        self.gateway.start()
        self.sites.begin()
        workers = [*hands(self.stage), *readers(self.stage), *bus.publishers(self.stage)]
        workers += [*queues.workers(self.stage), *self.sites.writers(self.stage)]
        written = [topic for topic in TOPICS if topic.written == "socket"]
        workers += [sockets.SocketReader(self.stage), *(sockets.SocketWriter(self.stage, each, 0) for each in written)]
        workers += [Operator(self.stage, self.instance), *emits.emitters(self.stage, self.instance)]
        workers += captures.changers(self.stage, self.instance)
        for each in workers:
            each.start()
        self.members.begin()
        self.heal()
        for number, step in enumerate(plan(self.seed, faults, set(self.left_out)), 1):
            self.try_fault(f"{number}/{faults}", step)
        self.finish()
        self.heal()
        self.end(workers)
        return self.evidence

    def set_up(self) -> None:
        client = Client(self.instance.port)
        for topic in TOPICS:
            assert client.call("PUT", f"/v0/topics/{topic.name}", topic.config).status == 201
        for router in ROUTERS:
            reply = client.call("PUT", f"/v0/routers/{router.name}", router.config)
            assert reply.status == 201, reply
        emits.allow_two_phase(self.instance)
        with self.instance.connect() as connection:
            connection.execute(captures.SET_UP)
        self.bus.set_up()
        self.webhook.set_up(client)
        queues.set_up(client, self.evidence.queues)

    def keep_logs(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            shutil.copytree(self.instance.data / "logs", folder, dirs_exist_ok=True)
            shutil.copy(self.instance.data / "output", folder)
            shutil.copy(self.gateway.folder / "output", folder / "gateway.log")
            shutil.copytree(self.sites.folder / "mirror", folder / "mirror", dirs_exist_ok=True)
            shutil.copytree(self.sites.other.data / "logs", folder / "other", dirs_exist_ok=True)

    # -- Faults --------------------------------------------------------------------------------------------------------

    def try_fault(self, number: str, step: Step) -> None:
        fault = step.fault
        hold = f" for {step.hold:.1f} s" if step.hold else ""
        began = now()
        self.scene.pick.seed(step.pick)
        self.scene.missed = False
        self.scene.calm = self.healed and not self.undos and step.overlaps is None
        self.healed = False
        self.evidence.faults_at.append(began)
        undo = fault.act(self.scene)
        if undo is not None:
            self.undos.append((began + step.hold, undo))
        line = f"{number:>8} {began:7.1f} s  {fault.name}{hold}{' (nobody was there)' if self.scene.missed else ''}"
        if step.overlaps is not None:
            self.say(f"{line}: the next one does not wait")
            self.rest(step.overlaps)
            return
        self.finish()
        self.say(f"{line}: {self.heal(fault.name)}")
        self.rest(step.calm)

    def rest(self, seconds: float) -> None:
        """Let time pass; end the faults whose time is over meanwhile, and start a supervisor that ended."""
        ends = now() + seconds
        while True:
            for each in [each for each in self.undos if each[0] <= now()]:
                _, undo = each
                if undo():
                    self.undos.remove(each)
            if self.instance.exited() is not None:
                self.scene.run_again()
            self.gateway.run_again()
            self.sites.run_again()
            if now() >= ends:
                return
            time.sleep(min(0.05, max(0.0, ends - now())))

    def finish(self) -> None:
        """Wait until no fault is under way."""
        while self.undos:
            self.rest(0.05)

    def heal(self, after: str = "the start") -> str:
        """Wait until everything works, and say how long that took."""
        began, wrong = now(), ""
        while now() - began < self.within + GIVE_UP:
            self.rest(0.1 if wrong else 0.0)
            try:
                self.healing.attempt()
            except Unhealed as error:
                wrong = str(error)
                continue
            took, self.healed = now() - began, True
            if took > self.within:
                self.evidence.slow.append(
                    f"after {after}, everything worked only after {took:.1f} s; until then {wrong}"
                )
            return f"healed after {took:.1f} s"
        took = now() - began
        self.evidence.trouble("healing", f"after {after}: not within {took:.0f} s: {wrong}")
        kill_everything(self.scene)
        until(self.instance.is_ready, "an instance that was started anew", GIVE_UP)
        return f"DID NOT HEAL within {took:.0f} s, everything was killed and started anew ({wrong})"

    # -- The end -------------------------------------------------------------------------------------------------------

    def end(self, workers: list[Hand]) -> None:
        """The writers stop, the routers and the readers come to the heads, and then nothing moves while the logs are read."""
        self.stage.ending.set()
        for each in workers:
            if not each.until_ended:
                each.join()
        began = now()
        with self.instance.connect() as connection:
            if left := emits.wait_until_moved(connection, TO_THE_HEAD):
                self.evidence.trouble("the end", f"{left} emitted records are in the outbox, and no relay moves them")
            self.wait_for_routers(connection)
            routers, began = now() - began, now()
            self.wait_for_readers(connection)
        readers, began = now() - began, now()
        if queued := bus.wait_until_drained(self.bus, TO_THE_HEAD):
            self.evidence.trouble("the end", f"{queued} events of the bus are not delivered")
        client = Client(self.instance.port)
        if left := self.webhook.wait_until_done(client, TO_THE_HEAD):
            self.evidence.trouble("the end", f"{left} records of the webhook are not delivered")
        if ready := queues.wait_until_done(client, TO_THE_HEAD):
            self.evidence.trouble("the end", f"{ready} jobs are ready, and no worker got them")
        if lag := self.members.wait_until_done(client, TO_THE_HEAD):
            self.evidence.trouble("the end", f"the group has a lag of {lag}")
        self.sites.look(TO_THE_HEAD)
        parts = f"the routers after {routers:.1f} s, then the readers after {readers:.1f} s"
        self.say(f"at the heads: {parts}, then the bus, webhook, queues, group and sites after {now() - began:.1f} s")
        self.stage.ended.set()
        for each in workers:
            each.join()
        queues.look(client, self.evidence.queues)
        self.webhook.look(client)
        with self.instance.connect() as connection:
            for topic in TOPICS:
                storage.read_log(client, connection, self.evidence, topic)
            there = {entry.seq for entry in self.evidence.logs[TOPIC].records}
            for what in self.members.faults(client, there):
                self.evidence.trouble("the group", what)
            captures.look(client, connection, self.evidence.captured)
            self.evidence.leftovers = storage.leftovers(connection)
            for what in storage.cursors_ahead(connection):
                self.evidence.trouble("the end", what)

    def wait_for_routers(self, connection: Connection) -> None:
        deadline = time.monotonic() + TO_THE_HEAD
        while (behind := storage.behind(connection)) and time.monotonic() < deadline:
            time.sleep(0.2)
        for what in behind:
            self.evidence.trouble("the end", what)

    def wait_for_readers(self, connection: Connection) -> None:
        """Wait as long as anybody comes nearer to a head. The oracle reports records that did not arrive."""
        began, heads = now(), storage.heads(connection)
        at_first = unread = self.unread(heads)
        arrived: dict[str, float] = {}  # after how many seconds each reader was at the heads
        deadline = time.monotonic() + TO_THE_HEAD
        while unread and time.monotonic() < deadline:
            time.sleep(0.2)
            before, unread = unread, self.unread(heads)
            arrived |= {who: now() - began for who in before if who not in unread}
            if sum(unread.values()) < sum(before.values()):
                deadline = time.monotonic() + TO_THE_HEAD
        told = (f"{who} {at_first[who]} seqs in {seconds:.1f} s" for who, seconds in arrived.items())
        self.say(f"the readers had to read: {', '.join(told) or 'nothing'}")

    def unread(self, heads: dict[str, int]) -> dict[str, int]:
        """Returns how many seqs lie before each reader that has any before it."""
        found: Counter[str] = Counter()
        for each in self.evidence.histories:
            found[each.who] += max(0, heads[each.topic] - each.position)
        return +found


@contextlib.contextmanager
def a_run(seed: int, within: float, say: Say, keep: Path) -> Iterator[Run]:
    """A run that leaves nothing behind; when the block fails, the instance's logs in `keep`."""
    folder = Path(tempfile.mkdtemp(prefix="topics-crash-"))
    run = Run(seed, folder, within, say)
    try:
        yield run
    except BaseException:
        run.keep_logs(keep)
        raise
    finally:
        run.bus.end()
        run.webhook.end()
        run.members.end()
        run.sites.end()
        run.gateway.kill_all()
        run.instance.end()
        if run.scene.disk:
            run.scene.disk.remove()
        shutil.rmtree(folder, ignore_errors=True)
