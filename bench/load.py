"""HTTP load from a separate process: wrk (Debian's package wrk) with one thread."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace

UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


@dataclass
class Load:
    """Answers a second, and their latencies in milliseconds. `most_ms` is the longest."""

    rate: float
    p50_ms: float
    p99_ms: float
    most_ms: float


def require_wrk() -> None:
    """Find wrk, or install it from Debian's packages as root. Raises SystemExit with the command to install it."""
    if shutil.which("wrk") is None and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "-qq", "update"], check=False, capture_output=True)
        subprocess.run(["apt-get", "-qq", "install", "-y", "wrk"], check=False, capture_output=True)
    if shutil.which("wrk") is None:
        raise SystemExit("bench: wrk makes the load and is not installed: apt-get install wrk, or brew install wrk")


@dataclass(frozen=True)
class Requests:
    """A request that is repeated. `$n` in the path or body counts the requests from 1 to `most` and starts again.

    If `most` is 0, `$n` never starts again. `$round` in the body counts these repetitions from 1. `key`: the secret, if any.
    """

    method: str
    url: str
    body: str = ""
    most: int = 0
    key: str = ""

    @property
    def path(self) -> str:
        return re.fullmatch(r"http://[^/]+(/.*)", self.url)[1]  # type: ignore[index]

    def to(self, root: str) -> Requests:
        """Returns the same requests to another server."""
        return replace(self, url=root + self.path)

    def script(self) -> str:
        """Returns the requests as a Lua script for wrk."""
        path = self.path
        lines = [f'wrk.method = "{self.method}"', f"local body = [==[{self.body}]==]"]
        if self.key:
            lines.append(f'wrk.headers["Authorization"] = "Bearer {self.key}"')
        if self.body:
            lines += ['wrk.headers["Content-Type"] = "application/json"', "wrk.body = body"]
        if "$n" in path + self.body or "$round" in self.body:
            around = f"if n > {self.most} then n = 1; round = round + 1 end" if self.most else ""
            lines += [
                "local n, round = -1, 1",  # wrk calls request() once without sending the result
                f"request = function() n = n + 1; {around}",
                f'  local path = string.gsub("{path}", "%$n", n)',
                '  return wrk.format(nil, path, nil, (string.gsub(string.gsub(body, "%$n", n), "%$round", round)))',
                "end",
            ]
        return "\n".join(lines)


def send(requests: Requests, connections: int, seconds: float) -> Load:
    """Send requests as fast as answers arrive. Raises SystemExit on any error answer."""
    return run(requests.url.partition("$")[0], requests.script(), connections, seconds)


def post(url: str, body: str, connections: int, seconds: float, spread: int = 0) -> Load:
    """POST the same body. `spread`: the number N of paths url1 … urlN that get it in turn."""
    return send(Requests("POST", url + ("$n" if spread else ""), body, spread), connections, seconds)


def get(url: str, connections: int, seconds: float) -> Load:
    """GET the same path repeatedly."""
    return send(Requests("GET", url), connections, seconds)


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
    most = r"Latency\s+\S+\s+\S+"  # the maximum follows the average and the deviation
    return Load(rate, latency(output, "50%"), latency(output, "99%"), latency(output, most))


def latency(output: str, percentile: str) -> float:
    number, unit = re.search(rf"{percentile}\s+([\d.]+)(us|ms|s|m)", output).groups()  # type: ignore[union-attr]
    return float(number) * UNITS[unit]
