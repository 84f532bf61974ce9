"""A real broker of Apache Kafka, in KRaft mode: one JVM (`make kafka` gets its jars)."""

import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.deadlines import DEADLINE
from tests.instances import free_port, until

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=200
log.segment.delete.delay.ms=100
log.initial.task.delay.ms=500
"""
STARTED = "Kafka Server started"


@dataclass
class Broker:
    """A broker with its folder and port. It keeps its data over `kill` and `start`."""

    folder: Path
    port: int = field(default_factory=free_port)
    controller: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        file = self.folder / "output"
        return file.read_text(errors="replace") if file.exists() else ""

    def java(self, *arguments: str) -> list[str]:
        classes = str(Path(os.environ["KAFKA_JARS"]) / "*")
        quick = (
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xmx512m",
            "-XX:-UsePerfData",
            f"-Djava.io.tmpdir={self.folder}",
        )
        return ["java", *quick, "-cp", classes, *arguments]

    def format(self) -> None:
        text = PROPERTIES.format(folder=self.folder, port=self.port, controller=self.controller)
        (self.folder / "server.properties").write_text(text)
        tool = ("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", "server.properties")
        subprocess.run(self.java(*tool), cwd=self.folder, check=True, capture_output=True)

    def start(self) -> None:
        said = self.output.count(STARTED)
        with (self.folder / "output").open("ab") as output:
            command = self.java("kafka.Kafka", "server.properties")
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=output, stderr=output)
        until(lambda: self.output.count(STARTED) > said or self.ended(), "Kafka to start", seconds=2 * DEADLINE)
        assert not self.ended(), self.output[-2000:]

    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
