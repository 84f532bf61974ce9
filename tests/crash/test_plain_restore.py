"""A plain pg_dump is made while clients write, and restored while they wait: each reader is told what the restore took."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest

import embedded
from embedded.programs import clients
from tests.crash.test_seqs import LAST, WRITERS, Mirror, Witness
from tests.instances import WHOLE, Instance, until


@pytest.fixture
def instance(instances: Callable[..., Instance]) -> Instance:
    return instances(**WHOLE)


def dump(instance: Instance, file: Path) -> None:
    url = instance.servers.database_url
    subprocess.run([program(url, "pg_dump"), "--format=custom", f"--file={file}", url], check=True)


def restore(instance: Instance, file: Path) -> None:
    """Restores the dump into the same database, while the product is stopped."""
    assert instance.stop() == 0, instance.output
    with embedded.use(instance.data) as servers:
        with psycopg.connect(servers.database_url) as session:
            session.execute("DROP SCHEMA public, topics CASCADE; CREATE SCHEMA public")
        into = f"--dbname={servers.database_url}"
        subprocess.run([program(servers.database_url, "pg_restore"), "--exit-on-error", into, str(file)], check=True)
    instance.start()


def program(url: str, name: str) -> str:
    with psycopg.connect(url) as session:
        return str(clients(session.info.server_version // 10_000) / name)


@pytest.mark.guarantee("R1")
def test_readers_are_told_what_a_plain_restore_took(instance: Instance, tmp_path: Path) -> None:
    """Readers that follow hold the same as the log afterwards, though it gave the seqs of the lost records again."""
    witness = Witness(instance)
    assert witness.live.put("/v0/topics/t").status == 201
    assert witness.live.put("/v0/routers/r", {"source": "t", "dest": "copy", "from": "earliest"}).status == 201
    mirrors = {topic: Mirror() for topic in ("t", "copy")}
    with ThreadPoolExecutor(WRITERS + len(mirrors)) as pool:
        try:
            writing = [pool.submit(witness.write, who) for who in range(WRITERS)]
            reading = [pool.submit(mirror.follow, witness, topic) for topic, mirror in mirrors.items()]
            witness.wait_for_reads()
            dump(instance, tmp_path / "plain.dump")
            witness.wait_for_reads()
            restore(instance, tmp_path / "plain.dump")
            witness.wait_for_reads()
            witness.ending.set()
            for each in writing:
                each.result()
            until(lambda: witness.ask(partial(witness.live.append, "t", LAST)), "the last append")
        except BaseException:
            witness.fail()
            raise
        for each in reading:
            each.result()
    for topic, mirror in mirrors.items():
        log = witness.log(topic)
        end = min(seq for seq, data in log.items() if data == LAST)  # one without an answer was sent again
        assert mirror.undone > 0
        assert {seq: data for seq, data in mirror.held.items() if log.get(seq) != data} == {}, topic
        assert mirror.held.keys() >= {seq for seq in log if seq <= end}, topic
