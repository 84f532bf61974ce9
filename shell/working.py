"""Runs a command for each job of a queue (`topics work`), several at once.

While a command runs, its lease is extended. If this machine sleeps for longer than the lease, another worker can get the job, and
this one ends the command.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from base.errors import TopicsError
from base.refusal import Refusal
from shell.printing import say
from shell.server import CommandServer, ask, can_pass, path
from shell.streams import messages

TICK_SECONDS = 0.05  # between two looks at the running commands
IDLE_SECONDS = 0.5  # between two claims of an empty queue
AWAY_SECONDS = 2.0  # between two calls while the server does not answer
END_SECONDS = 5.0  # for a command to end after SIGTERM
MOST_TAIL_BYTES = 4_096  # of standard error, in which the last line is found
MOST_ERROR = 500  # characters of the error that a failed job keeps: at most 2,000 bytes
# No memory, process, thread or descriptor is free: the command starts later. After other errors, it would start for no job.
FULL = frozenset((errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE))


class ClaimedJob(msgspec.Struct):
    """The part of a claimed job that a command needs."""

    lease_id: str
    deliveries: int
    data: msgspec.Raw
    seq: int = msgspec.field(name="$seq")
    tag: str = msgspec.field(name="$tag", default="")


class ClaimedJobs(msgspec.Struct):
    """The part of a claim's answer that a worker needs."""

    claimed: list[ClaimedJob]


class Complaints(threading.Thread):
    """Passes the standard error of a command on to ours, and keeps its last line. `sink`: for the command."""

    def __init__(self) -> None:
        """Raises OSError if no descriptor or thread is free."""
        super().__init__(daemon=True)
        source, sink = os.pipe()
        self.source, self.sink, self.tail = os.fdopen(source, "rb"), os.fdopen(sink, "wb"), b""
        try:
            self.start()
        except RuntimeError as error:
            self.source.close()
            self.sink.close()
            raise OSError(errno.EAGAIN, str(error)) from error

    def run(self) -> None:
        with self.source:
            while chunk := os.read(self.source.fileno(), MOST_TAIL_BYTES):
                with messages() as err:
                    err.buffer.write(chunk)
                self.tail = (self.tail + chunk)[-MOST_TAIL_BYTES:]

    def last_line(self) -> str:
        """Returns the last line at the end of the command. Another process can keep the pipe open, so this waits for a second."""
        self.join(1.0)
        lines = [line.strip() for line in self.tail.decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")


class RunningJob(NamedTuple):
    """A job, its command, and the standard error of the command."""

    job: ClaimedJob
    process: subprocess.Popen[bytes]
    complaints: Complaints


class Worker:
    """A worker on a queue. Raises Refusal if the topic is no queue, or there is no such program."""

    def __init__(
        self,
        server: CommandServer,
        topic: str,
        node: str,
        command: Sequence[str],
        most: int,
        delay_ms: int,
        *,
        once: bool,
    ) -> None:
        """`most`: commands at once. `delay_ms`: time until a failed job is ready again. `once`: end when the queue is empty."""
        if shutil.which(command[0]) is None:
            raise Refusal(f"there is no program {command[0]!r}")
        config = ask(server, "GET", path("topics", topic))["config"]
        if config["type"] != "queue":
            raise Refusal(f"topic {topic!r} is a {config['type']}: expected a queue")
        self.server, self.topic, self.node, self.command = server, topic, node, command
        self.most, self.delay_ms, self.once = most, delay_ms, once
        self.lease_ms: int = config["lease_ms"]
        self.running: list[RunningJob] = []
        self.claims_at = self.extends_at = 0.0
        self.is_empty, self.stopped_by = False, 0

    def stop(self, number: int, frame: object = None) -> None:
        """Ends `run` after the call that is under way. This handles signals: an exception could lose the answer to a claim."""
        self.stopped_by = number

    def run(self) -> None:
        """Works until a signal, or with `once` until no job is left. Jobs whose commands did not end are given back at once."""
        try:
            while not self.stopped_by and not (self.once and self.is_empty and not self.running):
                self.turn()
                time.sleep(TICK_SECONDS)
        finally:
            end(*(each.process for each in self.running))
            for each in self.running:
                self.leave(each)

    def leave(self, ended: RunningJob) -> None:
        """Gives back a job whose command was ended, or acks it if the command had succeeded before."""
        try:
            if ended.process.returncode:
                self.settle("nack", [ended.job], delay_ms=0)
            else:
                self.finish(ended)
        except TopicsError as error:
            say(f"job {ended.job.seq} comes back when its lease ends: {error.message}")

    def turn(self) -> None:
        """Settles the jobs whose commands have ended, extends the leases of the others, and claims more."""
        try:
            ended = [each for each in self.running if each.process.poll() is not None]
            for each in ended:
                self.finish(each)
                self.running.remove(each)
            now = time.monotonic()
            if self.running and now >= self.extends_at:
                self.extend()
                self.extends_at = now + self.lease_ms / 3000
            if len(self.running) < self.most and (ended or now >= self.claims_at):
                self.claim()
        except TopicsError as error:
            if not can_pass(error):
                raise
            say(f"{error.message}. The worker tries again")
            time.sleep(min(AWAY_SECONDS, self.lease_ms / 3000))  # in time for the next extend

    def claim(self) -> None:
        if not self.running:
            self.extends_at = time.monotonic() + self.lease_ms / 3000
        body = msgspec.json.encode({"node": self.node, "max": self.most - len(self.running)})
        answer = self.server.send("POST", path("topics", self.topic, "claim"), None, body)
        claimed = msgspec.json.decode(answer, type=ClaimedJobs).claimed
        self.is_empty = not claimed
        self.claims_at = time.monotonic() + (IDLE_SECONDS if self.is_empty else 0)
        for number, job in enumerate(claimed):
            try:
                self.running.append(self.begin(job))
            except OSError as error:
                self.give_back(claimed[number:], error)
                return

    def give_back(self, jobs: list[ClaimedJob], error: OSError) -> None:
        """Gives back jobs. Their command did not start because of `error`. Raises Refusal if it would start for no other job.

        Otherwise all jobs of the queue would become dead letters, for example while the program is missing.
        """
        why = f"the command did not start: {error}"
        is_full = error.errno in FULL
        self.settle("nack", jobs, delay_ms=self.delay_ms if is_full else 0, error="the command did not start")
        if not is_full:
            raise Refusal(why)
        say(f"job {jobs[0].seq}: {why}")
        self.claims_at = time.monotonic() + AWAY_SECONDS

    def begin(self, job: ClaimedJob) -> RunningJob:
        """Starts the command, with the job's JSON as its input."""
        told = {"TOPIC": self.topic, "SEQ": job.seq, "TAG": job.tag, "DELIVERIES": job.deliveries}
        environment = {**os.environ, **{f"TOPICS_JOB_{name}": str(value) for name, value in told.items()}}
        complaints = Complaints()  # before the command, which must not run if its job is given back
        # A file and no pipe, because a command can leave its input unread.
        with complaints.sink, tempfile.TemporaryFile() as given:
            given.write(bytes(job.data) + b"\n")
            given.seek(0)
            process = subprocess.Popen(self.command, stdin=given, stderr=complaints.sink, env=environment)
        return RunningJob(job, process, complaints)

    def finish(self, ended: RunningJob) -> None:
        """Acks a job whose command succeeded, and gives back any other."""
        job, code = ended.job, ended.process.returncode
        if not code:
            if self.settle("ack", [job]):
                say(f"job {job.seq} is done, but its lease had ended: another worker can do the job again")
            return
        why = f"exit code {code}" if code > 0 else f"signal {-code}"
        last = ended.complaints.last_line()
        say(f"job {job.seq} failed with {why} (delivery {job.deliveries})")
        error = f"{why}: {last}" if last else why
        self.settle("nack", [job], delay_ms=self.delay_ms, error=error.replace("\0", "")[:MOST_ERROR])

    def extend(self) -> None:
        """Extends the leases of the running jobs, and ends the commands whose leases are lost."""
        lost = self.settle("extend", [each.job for each in self.running], lease_ms=self.lease_ms)
        for each in [each for each in self.running if each.job.seq in lost and each.process.poll() is None]:
            say(f"job {each.job.seq} has another worker now: its command is ended")
            end(each.process)
            self.running.remove(each)

    def settle(self, call: str, jobs: list[ClaimedJob], **fields: Any) -> list[int]:
        """Sends an ack, a nack or an extend. Returns the seqs that this worker does not hold any more."""
        body = {
            "node": self.node,
            "seqs": [job.seq for job in jobs],
            "lease_ids": [job.lease_id for job in jobs],
            **fields,
        }
        sent = msgspec.json.encode(body)
        # A repeated call names the same leases. At worst it finds that the first one has ended them.
        answer = self.server.send("POST", path("topics", self.topic, call), None, sent, again=True)
        skipped: list[int] = msgspec.json.decode(answer)["skipped"]
        return skipped


def end(*processes: subprocess.Popen[bytes]) -> None:
    """Ends commands: SIGTERM, and SIGKILL if that does not help."""
    for process in processes:
        process.terminate()
    over = time.monotonic() + END_SECONDS
    for process in processes:
        try:
            process.wait(max(0, over - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
