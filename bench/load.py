"""Load over HTTP from a process of its own: wrk (Debian's package wrk), one thread."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


@dataclass
class Load:
    """Answers a second, and their latency in milliseconds."""

    rate: float
    p50_ms: float
    p99_ms: float


def require_wrk() -> None:
    """Find wrk, or get it where Debian's packages are at hand; else say in a line how to."""
    if shutil.which("wrk") is None and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "-qq", "update"], check=False, capture_output=True)
        subprocess.run(["apt-get", "-qq", "install", "-y", "wrk"], check=False, capture_output=True)
    if shutil.which("wrk") is None:
        raise SystemExit("bench: wrk makes the load and is not installed: apt-get install wrk, or brew install wrk")


def post(url: str, body: str, connections: int, seconds: float, spread: int = 0) -> Load:
    """POST the same body as fast as answers come. `spread`: over paths url1 … urlN in turn. Raises on any error answer."""
    base, path = re.fullmatch(r"(http://[^/]+)(/.*)", url).groups()  # type: ignore[union-attr]
    script = f'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\nwrk.body = [==[{body}]==]\n'
    if spread:
        script += f'local i = 0\nrequest = function() i = i % {spread} + 1; return wrk.format(nil, "{path}" .. i) end\n'
    return run(base if spread else url, script, connections, seconds)


def get(url: str, connections: int, seconds: float) -> Load:
    """GET the same path as fast as answers come."""
    return run(url, "", connections, seconds)


def run(url: str, script: str, connections: int, seconds: float) -> Load:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{seconds:.0f}s",
            "--timeout",
            "30s",
            "--latency",
            "-s",
            file.name,
            url,
        ]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if trouble := re.search(r"Non-2xx.*|Socket errors.*", output):
        raise SystemExit(f"bench: {url}: {trouble[0]}")
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])  # type: ignore[index]
    return Load(rate, latency(output, "50%"), latency(output, "99%"))


def latency(output: str, percentile: str) -> float:
    number, unit = re.search(rf"{percentile}\s+([\d.]+)(us|ms|s|m)", output).groups()  # type: ignore[union-attr]
    return float(number) * UNITS[unit]
