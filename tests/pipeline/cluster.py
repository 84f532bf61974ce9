"""A standalone Spark master and two workers on this machine: what a cluster is, but for the network between.

python -m tests.pipeline.cluster        prints the master's URL, and runs until Ctrl-C
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from base.processes import die_with_parent
from tests.instances import free_port, until

WORKERS = 2


def spark_class(name: str, *arguments: str, log: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start one of Spark's own programs, which ends with this process."""
    import pyspark

    home, parent = Path(pyspark.__file__).parent, os.getpid()
    with log.open("wb") as output:
        return subprocess.Popen(
            [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
            env={
                **os.environ,
                "SPARK_HOME": str(home),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_DAEMON_MEMORY": "256m",
                **environment,
            },
            cwd=log.parent,
            stdout=output,
            stderr=output,
            preexec_fn=lambda: die_with_parent(parent),
        )


@contextlib.contextmanager
def cluster(folder: Path, environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """The master's URL, once all workers are there; the environment is for its programs, executors too."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())]
    log = folder / "master.log"
    with contextlib.ExitStack() as stack:

        def run(name: str, *arguments: str, log: Path) -> None:
            process = spark_class(name, *arguments, log=log, **environment)
            stack.callback(process.wait)
            stack.callback(process.kill)

        run("master.Master", *master, log=log)
        for n in range(WORKERS):
            home = folder / f"worker{n}"
            home.mkdir()
            size = ["--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", str(free_port())]
            run("worker.Worker", *size, "--work-dir", str(home), url, log=folder / f"worker{n}.log")
        until(lambda: log.read_text().count("Registering worker") == WORKERS, "the workers to register")
        yield url


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="topics-spark-") as place, cluster(Path(place)) as where:
        print(f"SPARK_MASTER={where}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
