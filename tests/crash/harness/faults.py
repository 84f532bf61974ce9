"""The faults: the effect of each on the instance, and its end. Nothing here helps the service up again."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg
import redis
from psycopg.conninfo import conninfo_to_dict

import embedded
from tests.crash.harness.clock import Clock
from tests.crash.harness.disk import Disk
from tests.crash.harness.evidence import Evidence, Held, now
from tests.crash.harness.gateway import Gateway
from tests.crash.harness.members import Members
from tests.crash.harness.processes import Process, Processes, look, send
from tests.crash.harness.sites import Sites
from tests.instances import Instance
from topics_project.heartbeats import Heartbeats

HOUR = 3600.0
# The supervisor replaces a process that gives no heartbeat for 5 s. A busy machine gets some seconds more.
REPLACED_WITHIN = 15.0
HELD_WITHIN = 2.0  # seconds of the harness for the lock of a head
MOST_CONNECTIONS = 400  # more than the embedded PostgreSQL has
POSTGRES_PROTOCOL = 3 << 16

HOLD_HEAD = """
SELECT FROM topics_topichead WHERE topic_id = (SELECT id FROM topics_topic WHERE name = %s) FOR UPDATE
"""

READ_ONLY = "ALTER ROLE CURRENT_USER SET default_transaction_read_only = on"
AS_BEFORE = "ALTER ROLE CURRENT_USER RESET default_transaction_read_only"
END_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid()
"""

# Ends a fault; False: that has to be tried again, since something else is in the way.
Undo = Callable[[], bool]


@dataclass
class Scene:
    """The instance, and the faults that this machine allows. `pick`: what chance chooses victims with, for the fault at hand;
    `missed`: it found nobody, since the fault before it is not healed yet. `calm`: the last fault is healed, and the next
    one waits for this one."""

    instance: Instance
    evidence: Evidence
    gateway: Gateway
    members: Members
    sites: Sites
    clock: Clock | None = None
    disk: Disk | None = None
    pick: random.Random = field(default_factory=random.Random)
    missed: bool = False
    calm: bool = True

    @property
    def processes(self) -> Processes:
        return Processes(self.instance)

    @property
    def beating(self) -> set[int]:
        """The processes that the supervisor has had a heartbeat of."""
        try:
            return {slot.pid for _, slot in Heartbeats(self.instance.data).slots()}
        except OSError:
            return set()

    def one_of(self, processes: list[Process]) -> list[Process]:
        self.missed = not processes
        return [self.pick.choice(processes)] if processes else []

    def run_again(self) -> None:
        """As a service manager does."""
        with contextlib.suppress(OSError):  # a full disk: the next look tries again
            self.instance.run()


@dataclass(frozen=True)
class Fault:
    """`victim`: of whom the next one has to wait a little. Who starts it again takes longer and longer about it, and a machine
    where the same program dies every few seconds is another trouble than this harness is about. `hold`: seconds that it
    lasts, at least and at most; `act` answers how to end it. `needs`: the part of the scene that not every machine has.
    """

    name: str
    victim: str
    act: Callable[[Scene], Undo | None]
    hold: tuple[float, float] = (0.0, 0.0)
    weight: float = 1.0
    needs: str = ""


# -- Processes ---------------------------------------------------------------------------------------------------------

Who = Callable[[Processes], list[Process]]


def kill(who: Who, number: signal.Signals = signal.SIGKILL) -> Callable[[Scene], None]:
    """One of these processes, without a word."""
    return lambda scene: send(number, scene.one_of(who(scene.processes)))


def kill_supervisor(scene: Scene) -> None:
    if (supervisor := scene.instance.process) is not None:
        supervisor.kill()
        supervisor.wait()
    scene.run_again()


def kill_everything(scene: Scene) -> None:
    scene.gateway.kill_all()
    scene.instance.kill()
    scene.run_again()


def freeze(who: Who, *, everyone: bool = False) -> Callable[[Scene], Undo]:
    """One of these processes, or all of them, neither runs nor ends for a while."""

    def act(scene: Scene) -> Undo:
        found = who(scene.processes)
        frozen = found if everyone else scene.one_of(found)
        send(signal.SIGSTOP, frozen)

        def thaw() -> bool:
            # By number: what PostgreSQL's processes call themselves changes with what they do.
            ours = {each.pid for each in scene.processes.all}
            send(signal.SIGCONT, [each for each in frozen if each.pid in ours])
            return True

        return thaw

    return act


def freeze_until_replaced(who: Who) -> Callable[[Scene], Undo]:
    """One of these processes stands still until the supervisor has ended it. One that has just started is left alone: the
    supervisor misses a heartbeat only of a process that has given one."""

    def act(scene: Scene) -> Undo:
        frozen = scene.one_of([each for each in who(scene.processes) if each.pid in scene.beating])
        send(signal.SIGSTOP, frozen)
        late = now() + REPLACED_WITHIN

        def replaced() -> bool:
            left = {each.pid for each in frozen} & {each.pid for each in scene.processes.all}
            if left and now() > late:
                what = f"{frozen[0].command.strip()} was frozen for {REPLACED_WITHIN:.0f} s, and not replaced"
                scene.evidence.trouble("the supervisor", what)
                send(signal.SIGCONT, frozen)
                return True
            return not left

        return replaced

    return act


# -- The gateway -------------------------------------------------------------------------------------------------------


def kill_gateway(scene: Scene) -> None:
    """Its first process. The others end by themselves, while the next ones serve."""
    scene.gateway.kill()
    scene.gateway.run_again()


def kill_gateway_process(scene: Scene) -> None:
    send(signal.SIGKILL, scene.one_of(scene.gateway.serving))


def freeze_gateway_process(scene: Scene) -> Undo:
    frozen = scene.one_of(scene.gateway.serving)
    send(signal.SIGSTOP, frozen)

    def thaw() -> bool:
        # Its parent may have been killed meanwhile, and a stopped process does not end by itself.
        send(signal.SIGCONT, [each for each in frozen if (found := look(each.pid)) and found.command == each.command])
        return True

    return thaw


# -- Servers -----------------------------------------------------------------------------------------------------------


def redis_client(scene: Scene) -> redis.Redis | None:
    servers = embedded.running(scene.instance.data)
    return redis.Redis.from_url(servers.redis_url, socket_timeout=2, socket_connect_timeout=2) if servers else None


def flush_redis(scene: Scene) -> None:
    with contextlib.suppress(redis.RedisError):
        if (client := redis_client(scene)) is not None:
            client.flushall()


def fill_redis(scene: Scene) -> Undo:
    """It refuses whatever takes memory."""

    def limit(size: str) -> bool:
        with contextlib.suppress(redis.RedisError):
            if (client := redis_client(scene)) is not None:
                return bool(client.config_set("maxmemory", size))
        return False

    limit("100kb")
    return lambda: limit("0")


def demote_redis(scene: Scene) -> Undo:
    """It becomes a replica, as after a failover, and then the master again. It keeps its connections, and takes no writes."""

    def follow(*master: str) -> bool:
        with contextlib.suppress(redis.RedisError):
            if (client := redis_client(scene)) is not None:
                return bool(client.replicaof(*master))
        return False

    follow("127.0.0.1", "1")  # nobody listens there
    return lambda: follow("NO", "ONE")


def make_role_read_only(scene: Scene) -> Undo:
    """An operator makes the role read only, as before an upgrade, and ends its sessions. New ones begin with that setting."""

    def ran(*statements: str) -> bool:
        with (
            contextlib.suppress(psycopg.Error, AssertionError),  # PostgreSQL is away
            scene.instance.connect(connect_timeout=2, options="-c default_transaction_read_only=off") as connection,
        ):
            for each in statements:
                connection.execute(each)
            return True
        return False

    scene.missed = not ran(READ_ONLY, END_SESSIONS)
    return lambda: ran(AS_BEFORE)


def hold_head(scene: Scene) -> Undo:
    """Somebody locks the head of a topic that writers append to under keys, and keeps the lock."""
    topic = scene.pick.choice(["keyed.disk", "keyed.fsync", "disk"])
    since, held, over = now(), threading.Event(), threading.Event()

    def hold() -> None:
        with (
            contextlib.suppress(psycopg.Error, AssertionError),  # PostgreSQL is away, or somebody else holds the head
            scene.instance.connect(connect_timeout=2) as connection,
            connection.transaction(),
        ):
            connection.execute("SET LOCAL lock_timeout = '1s'")
            connection.execute(HOLD_HEAD, (topic,))
            held.set()
            over.wait()

    # This thread alone thaws what it has frozen. If it waited itself for PostgreSQL, which it may have frozen before the lock
    # or before the COMMIT, it would wait for ever.
    threading.Thread(target=hold, daemon=True).start()
    scene.missed = not held.wait(HELD_WITHIN)
    calm = scene.calm and not scene.missed

    def let_go() -> bool:
        over.set()
        if calm:
            scene.evidence.held.append(Held(topic, since, now()))
        return True

    return let_go


def take_connections(scene: Scene) -> Undo:
    """All that PostgreSQL has, by clients who say what they want and then not who they are."""
    taken: list[socket.socket] = []
    if (servers := embedded.running(scene.instance.data)) is not None:
        where = conninfo_to_dict(servers.database_url)
        body = f"user\0{where['user']}\0database\0{where['dbname']}\0\0".encode()
        startup = struct.pack("!ii", len(body) + 8, POSTGRES_PROTOCOL) + body
        with contextlib.suppress(OSError):
            for _ in range(MOST_CONNECTIONS):
                client = socket.socket(socket.AF_UNIX)
                taken.append(client)
                client.settimeout(1)
                client.connect(f"{where['host']}/.s.PGSQL.{where['port']}")
                client.sendall(startup)

    def give_back() -> bool:
        for client in taken:
            client.close()
        return True

    return give_back


# -- The machine -------------------------------------------------------------------------------------------------------


def step_clock(seconds: float) -> Callable[[Scene], Undo]:
    def act(scene: Scene) -> Undo:
        clock = scene.clock
        assert clock is not None
        clock.step(seconds)

        def step_back() -> bool:
            clock.step(0)
            return True

        return step_back

    return act


def step_clock_of(who: Who, seconds: float) -> Callable[[Scene], Undo]:
    """The clock of one of these processes alone, as on one of several machines."""

    def act(scene: Scene) -> Undo:
        clock = scene.clock
        assert clock is not None
        for process in scene.one_of(who(scene.processes)):
            clock.step_one(process.pid, seconds)

        def step_back() -> bool:
            clock.step_one(0, 0)
            return True

        return step_back

    return act


def fill_disk(scene: Scene) -> Undo:
    disk = scene.disk
    assert disk is not None
    disk.fill()

    def make_room() -> bool:
        disk.make_room()
        return True

    return make_room


FAULTS = [
    Fault("kill a PostgreSQL backend", "backend", kill(lambda p: p.backends), weight=4),
    Fault("kill a helper of PostgreSQL", "backend", kill(lambda p: p.helpers)),
    Fault("kill PostgreSQL's postmaster", "postgres", kill(lambda p: p.postmaster), weight=2),
    Fault("stop PostgreSQL immediately", "postgres", kill(lambda p: p.postmaster, signal.SIGQUIT), weight=2),
    Fault("kill Redis", "redis", kill(lambda p: p.redis)),
    Fault("kill a web worker", "web worker", kill(lambda p: p.web_workers), weight=2),
    Fault("kill the web server", "web", kill(lambda p: p.web), weight=0.5),
    Fault("kill the worker", "worker", kill(lambda p: p.worker), weight=0.5),
    Fault("kill a process of the worker's pool", "pool", kill(lambda p: p.pool), weight=2),
    Fault("kill beat", "beat", kill(lambda p: p.beat)),
    Fault("kill the push worker", "push", kill(lambda p: p.push), weight=2),
    Fault("kill the guard", "postgres", kill(lambda p: p.guard), weight=0.5),
    Fault("kill the supervisor", "all", kill_supervisor, weight=0.5),
    Fault("kill everything", "all", kill_everything, weight=0.5),
    Fault("freeze a web worker", "frozen web worker", freeze(lambda p: p.web_workers), hold=(0.5, 2.5), weight=2),
    Fault("freeze a PostgreSQL backend", "frozen backend", freeze(lambda p: p.backends), hold=(0.5, 2.5), weight=2),
    Fault("freeze all of PostgreSQL", "frozen postgres", freeze(lambda p: p.postgres, everyone=True), hold=(0.5, 2.5)),
    Fault("freeze Redis", "frozen redis", freeze(lambda p: p.redis), hold=(0.5, 2.5)),
    Fault("freeze a process of the worker's pool", "frozen pool", freeze(lambda p: p.pool), hold=(0.5, 2.5)),
    Fault("freeze the worker", "frozen worker", freeze(lambda p: p.worker), hold=(0.5, 2.5)),
    Fault("freeze the push worker", "frozen push", freeze(lambda p: p.push), hold=(0.5, 2.5)),
    Fault(
        "freeze a web worker until it is replaced", "frozen web worker", freeze_until_replaced(lambda p: p.web_workers)
    ),
    Fault("freeze the worker until it is replaced", "frozen worker", freeze_until_replaced(lambda p: p.worker)),
    Fault("freeze the push worker until it is replaced", "frozen push", freeze_until_replaced(lambda p: p.push)),
    Fault("freeze beat until it is replaced", "beat", freeze_until_replaced(lambda p: p.beat)),
    Fault("kill the gateway", "gateway", kill_gateway),
    Fault("kill a process of the gateway", "gateway process", kill_gateway_process, weight=2),
    Fault("freeze a process of the gateway", "frozen gateway", freeze_gateway_process, hold=(0.5, 2.5), weight=2),
    Fault("kill a member of the group", "member", lambda scene: scene.members.kill(scene.pick)),
    Fault(
        "freeze a member of the group", "frozen member", lambda scene: scene.members.freeze(scene.pick), hold=(0.5, 2.5)
    ),
    Fault("kill the mirror", "mirror", lambda scene: scene.sites.kill_mirror(), weight=4),
    Fault("freeze the mirror", "frozen mirror", lambda scene: scene.sites.freeze_mirror(), hold=(0.5, 2.5)),
    Fault(
        "kill the server at the mirror's other end", "other site", lambda scene: scene.sites.kill_other(), weight=0.5
    ),
    Fault("hold the head of a topic", "head", hold_head, hold=(1.5, 2.5), weight=2),
    Fault("flush Redis", "flushed redis", flush_redis),
    Fault("fill Redis", "full redis", fill_redis, hold=(1, 3)),
    Fault("make Redis a replica", "replica", demote_redis, hold=(1, 3)),
    Fault("make the role of PostgreSQL read only", "read-only role", make_role_read_only, hold=(1, 3)),
    Fault("take all connections of PostgreSQL", "connections", take_connections, hold=(1.5, 2.5)),
    Fault("step the clock an hour ahead", "clock", step_clock(HOUR), hold=(0.5, 2.5), needs="clock"),
    Fault("step the clock an hour back", "clock", step_clock(-HOUR), hold=(0.5, 2.5), needs="clock"),
    Fault("step the clock ten seconds back", "clock", step_clock(-10), hold=(0.5, 2.5), needs="clock"),
    Fault(
        "step the clock of a process of the pool an hour ahead",
        "clock of one",
        step_clock_of(lambda p: p.pool, HOUR),
        hold=(0.5, 2.5),
        needs="clock",
    ),
    Fault(
        "step the clock of a web worker three seconds ahead",
        "clock of one",
        step_clock_of(lambda p: p.web_workers, 3),
        hold=(0.5, 2.5),
        needs="clock",
    ),
    Fault("fill the disk", "disk", fill_disk, hold=(1, 3), needs="disk"),
]
