"""`make gateway-demo`: two servers with data of their own, and a gateway that shows them as one (union.yaml).

The gateway listens on PORT (4100), the servers on the two ports behind it. All data is in TOPICS_DATA (`.demo`).
"""

import fcntl
import http.client
import os
import signal
import sys
import threading
import time
from pathlib import Path

from base.locks import take_lock
from base.refusal import Refusal
from base.secret import put
from topics_project.embedded.children import Child, stop_all
from topics_project.embedded.folder import bind, keep_secret, last_line, write

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = Path(__file__).parent / "union.yaml"
MANAGE = (sys.executable, str(ROOT / "manage.py"))
HOST = "127.0.0.1"
SERVERS = ("eu", "us")
# Settings that would give both servers the same database, or ask the printed calls for a key.
NOT_FOR_SERVERS = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "TOPICS_API_KEYS")
START_SECONDS = 180.0  # the first start makes two databases
TICK = 0.25  # seconds between two looks at the processes


def main() -> None:
    """Run until Ctrl-C or SIGTERM. Raises Refusal."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A handler may interrupt the event's wait() while that holds the event's lock, so a thread sets the event.
        signal.signal(number, lambda *_: threading.Thread(target=stopping.set, daemon=True).start())
    ports, data = free_ports(), folder()
    held = take_lock(data / "lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
    if held is None:
        raise Refusal(f"the demo already runs on {data}: stop it, or set TOPICS_DATA to another folder.")
    try:
        run(data, ports, stopping)
    finally:
        os.close(held)


def run(data: Path, ports: list[int], stopping: threading.Event) -> None:
    """Run all processes until `stopping`. Raises Refusal where one of them does not start."""
    forget_settings()
    put("GATEWAY_KEY", keep_secret(data / "gateway-key"))
    file = data / "gateway.yaml"
    write(file, moved(EXAMPLE.read_text(), ports))
    gateway_port, *server_ports = ports
    servers = [server(name, data, port, gateway_port) for name, port in zip(SERVERS, server_ports, strict=True)]
    gateway = Child("gateway", [*MANAGE, "gateway", "serve", str(file)], data / "gateway.log", listen_on(gateway_port))
    children = [gateway, *servers]
    try:
        say("Starting two servers and a gateway …")
        for child in servers:
            child.start()
        for child, port in zip(servers, server_ports, strict=True):
            wait_until_ready(child, port, "/v0/ready", stopping)
        gateway.start()
        wait_until_ready(gateway, gateway_port, "/gateway/health", stopping)
        if not stopping.is_set():
            say(welcome(data, file, ports))
        while not stopping.wait(TICK):
            for child in children:
                child.revive(time.monotonic(), say)
                child.bound_log()
    finally:
        stop_all(children)


def free_ports() -> list[int]:
    """Returns the ports of the gateway and of the servers. Raises Refusal for one that is taken."""
    given = os.environ.get("PORT", "").strip() or "4100"
    most = 65535 - len(SERVERS)
    if not given.isdecimal() or not 1 <= int(given) <= most:
        raise Refusal(f"PORT={given} is not a whole number from 1 to {most} (default 4100).")
    ports = [int(given) + place for place in range(1 + len(SERVERS))]
    for port in ports:
        try:
            bind(HOST, port)
        except OSError as error:
            raise Refusal(
                f"port {port} is in use: set PORT to a free port. The next two ports must be free, too."
            ) from error
    return ports


def folder() -> Path:
    """Returns the folder of all data. Raises Refusal where it cannot be made."""
    data = Path(os.environ.get("TOPICS_DATA", "").strip() or ROOT / ".demo").expanduser().absolute()
    try:
        data.mkdir(mode=0o711, parents=True, exist_ok=True)  # an embedded PostgreSQL of root's is another user
        (data / "lock").touch(mode=0o600)
    except OSError as error:
        raise Refusal(f"the data folder {data} cannot be used ({error.strerror}): set TOPICS_DATA.") from error
    return data


def forget_settings() -> None:
    for name in NOT_FOR_SERVERS:
        os.environ.pop(name, None)
        os.environ.pop(f"{name}_FILE", None)


def moved(text: str, ports: list[int]) -> str:
    """The example with the ports that the servers have here."""
    for place, port in enumerate(ports):
        text = text.replace(f":{4100 + place}", f":\0{port}")
    return text.replace("\0", "")


def listen_on(port: int) -> dict[str, str]:
    return {"HOST": HOST, "PORT": str(port)}


def server(name: str, data: Path, port: int, gateway: int) -> Child:
    few = {"WEB_WORKERS": os.environ.get("WEB_WORKERS", "1"), "WORKER_PROCESSES": "1"}
    shown = {"TOPICS_GATEWAYS": f"http://{HOST}:{gateway}"}
    env = {**few, **shown, **listen_on(port), "TOPICS_DATA": str(data / name)}
    # It takes its own PostgreSQL down before it ends.
    return Child(name, [*MANAGE, "run"], data / f"{name}.log", env, patience=60.0)


def wait_until_ready(child: Child, port: int, path: str, stopping: threading.Event) -> None:
    """Wait until it is ready, or until the demo is stopped. Raises Refusal if the process ended."""
    deadline = time.monotonic() + START_SECONDS
    while not stopping.is_set() and not answers(port, path):
        if child.exited() is not None or time.monotonic() > deadline:
            raise Refusal(f"{child.name} did not start: {last_line(child.log)} ({child.log})")
        stopping.wait(TICK)


def answers(port: int, path: str) -> bool:
    client = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        client.request("GET", path)
        return client.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()


def welcome(data: Path, file: Path, ports: list[int]) -> str:
    gateway, eu, us = ports
    json = "-H 'Content-Type: application/json'"
    wid = r"""| sed 's/.*"wid":"\([^"]*\)".*/\1/')"""
    return f"""\
Two servers and a gateway are up. Ctrl-C stops all of them. The data stays.
  gateway  http://{HOST}:{gateway}   configuration {file}
  eu       http://{HOST}:{eu}   admin at /admin/, its password is in {data / "eu" / "admin-password"}
  us       http://{HOST}:{us}   admin at /admin/, its password is in {data / "us" / "admin-password"}

Append to both servers, list the topics of both, read one, and follow both in one stream:

    curl localhost:{gateway}/v0/topics/eu.orders {json} -d '{{"records": [{{"data": {{"id": 1}}}}]}}'
    curl localhost:{gateway}/v0/topics/us.orders {json} -d '{{"records": [{{"data": {{"id": 2}}}}]}}'
    curl localhost:{gateway}/v0/topics
    curl localhost:{gateway}/v0/topics/us.orders/records
    wid=$(curl -s localhost:{gateway}/v0/watch {json} -d '{{"topics": {{"eu.orders": {{}}, "us.orders": {{}}}}}}' {wid}
    curl -N localhost:{gateway}/v0/watch/$wid

See the way that a request takes, and the state of the gateway. The page /admin/graph/ of both servers shows it, too:

    .venv/bin/python manage.py gateway explain {shown(file)} GET /v0/topics/eu.orders
    curl localhost:{gateway}/gateway/health"""


def shown(file: Path) -> Path:
    """The file as it is typed in the clone."""
    return file.relative_to(ROOT) if file.is_relative_to(ROOT) else file


def say(text: str) -> None:
    """Also at once where the output is a file."""
    print(text, flush=True)


if __name__ == "__main__":
    main()
