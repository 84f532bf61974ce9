"""A real broker of Apache Kafka, in KRaft mode: one JVM (`make kafka` gets its jars)."""

import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from tests.deadlines import DEADLINE
from tests.instances import free_port, until

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login},TLS://127.0.0.1:{tls},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login},TLS://127.0.0.1:{tls}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SSL
sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required {users};
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={folder}/broker.pem
listener.name.tls.ssl.truststore.type=PEM
listener.name.tls.ssl.truststore.location={folder}/ca.pem
listener.name.tls.ssl.client.auth=required
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
USER, PASSWORD = "gateway", "right"


@dataclass
class Broker:
    """A broker with its folder and ports. It keeps its data over `kill` and `start`.

    The port `login` takes USER with PASSWORD, and the port `tls` takes certificates that `authority` signed.
    """

    folder: Path
    port: int = field(default_factory=free_port)
    controller: int = field(default_factory=free_port)
    login: int = field(default_factory=free_port)
    tls: int = field(default_factory=free_port)
    authority: trustme.CA = field(default_factory=trustme.CA)
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
        ports = {"port": self.port, "controller": self.controller, "login": self.login, "tls": self.tls}
        text = PROPERTIES.format(folder=self.folder, users=f'user_{USER}="{PASSWORD}"', **ports)
        (self.folder / "server.properties").write_text(text)
        self.authority.cert_pem.write_to_path(self.folder / "ca.pem")
        own = self.authority.issue_cert("127.0.0.1")
        key = load_pem_private_key(own.private_key_pem.bytes(), None)
        kafkas = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # Kafka reads no other format
        (self.folder / "broker.pem").write_bytes(kafkas + b"".join(each.bytes() for each in own.cert_chain_pems))
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
