"""Runs the tests of topics on Kafka (`make kafka`), with a real broker of Apache Kafka from Maven Central.

It gets the jars once: into KAFKA_JARS, or into a folder of the user's cache. It needs Java 17 and Maven. `--get` ends with that.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "4.1.1"
ARTIFACTS = (("org.apache.kafka", "kafka_2.13", VERSION), ("org.slf4j", "slf4j-simple", "1.7.36"))
COMPLETE = "complete"  # a file that is written last, so an interrupted download is repeated


def jars() -> Path:
    """Returns the folder of the jars."""
    given = os.environ.get("KAFKA_JARS", "").strip()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else cache / "topics" / f"kafka-{VERSION}"


def fetch(folder: Path) -> str | None:
    """Gets the jars. Returns why it failed, or None."""
    if (folder / COMPLETE).exists():
        return None
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            return (
                f"{program} is not installed: install Java 17 and Maven (apt-get install openjdk-17-jre-headless maven)"
            )
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in ARTIFACTS
    )
    project = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>topics</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>{wanted}</dependencies></project>"
    )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "pom.xml").write_text(project)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder.resolve()}"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    if done.returncode:
        reasons = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")] or ["no answer"]
        return f"Maven could not get Kafka {VERSION}: {reasons[0]}"
    (folder / COMPLETE).touch()
    return None


def main() -> int:
    folder = jars()
    why = fetch(folder)
    if why is not None:
        print(f"NOT TRIED: Kafka. {why}.")
        return 1
    if "--get" in sys.argv:
        return 0
    command = [sys.executable, "-m", "pytest", "-m", "kafka", "tests/kafka", *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, "KAFKA_JARS": str(folder.resolve())}).returncode


if __name__ == "__main__":
    sys.exit(main())
