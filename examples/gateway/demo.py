"""`make gateway-demo`: two servers with data of their own, and a gateway that shows them as one (union.yaml).

The gateway listens on PORT (4100), the servers on the two ports behind it. All data is in TOPICS_DATA (`.demo`).
"""

import os
import sys
import threading
from pathlib import Path

from base.secret import put
from base.signals import on_signals
from embedded.children import Child, stop_all
from embedded.folder import keep_secret, write
from examples.demo import (
    HOST,
    ROOT,
    folder,
    forget_settings,
    free_ports,
    keep_running,
    listen_on,
    say,
    shown,
    wait_until_ready,
)

EXAMPLE = Path(__file__).parent / "union.yaml"
MANAGE = (sys.executable, str(ROOT / "manage.py"))
SERVERS = ("eu", "us")
# Settings that would give both servers the same database, or ask the printed calls for a key.
NOT_FOR_SERVERS = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "TOPICS_API_KEYS")


def main() -> None:
    """Run until Ctrl-C or SIGTERM. Raises Refusal."""
    stopping = on_signals()
    ports = free_ports(4100, 1 + len(SERVERS))
    with folder(".demo") as data:
        run(data, ports, stopping)


def run(data: Path, ports: list[int], stopping: threading.Event) -> None:
    """Run all processes until `stopping`. Raises Refusal where one of them does not start."""
    forget_settings(*NOT_FOR_SERVERS)
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
        keep_running(children, stopping)
    finally:
        stop_all(children)


def moved(text: str, ports: list[int]) -> str:
    """The example with the ports that the servers have here."""
    for place, port in enumerate(ports):
        text = text.replace(f":{4100 + place}", f":\0{port}")
    return text.replace("\0", "")


def server(name: str, data: Path, port: int, gateway: int) -> Child:
    few = {"WEB_WORKERS": os.environ.get("WEB_WORKERS", "1"), "WORKER_PROCESSES": "1"}
    shown = {"TOPICS_GATEWAYS": f"http://{HOST}:{gateway}"}
    env = {**few, **shown, **listen_on(port), "TOPICS_DATA": str(data / name)}
    # It takes its own PostgreSQL down before it ends.
    return Child(name, [*MANAGE, "run"], data / f"{name}.log", env, patience=60.0)


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


if __name__ == "__main__":
    main()
