"""The common part of the examples with a client: a server, the client, and a page.

The server is the one of TOPICS_URL, or one that starts here, on the port behind PORT. Its data are in TOPICS_DATA (`.demo/NAME`).
"""

import functools
import http.server
import json
import os
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from topics_client import Topics

from base.refusal import Refusal
from base.signals import on_signals
from embedded.children import Child, stop_all
from examples.demo import HOST, ROOT, folder, forget_settings, free_ports, listen_on, say, wait_until_ready

CLIENT = ROOT / "clients" / "js" / "src"


class Here(NamedTuple):
    """A running server, its client, the port for a page, and an event that Ctrl-C and SIGTERM set."""

    url: str
    topics: Topics
    port: int
    stopping: threading.Event


@contextmanager
def server(name: str, port: int) -> Iterator[Here]:
    """Yields a server for the example `name`, whose page has PORT (default `port`). Raises Refusal."""
    stopping = on_signals()
    if url := os.environ.get("TOPICS_URL"):
        (page,) = free_ports(port, 1)
        with Topics(url) as topics:
            yield Here(url, topics, page, stopping)
        return
    page, own = free_ports(port, 2)
    forget_settings("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "TOPICS_API_KEYS", "TOPICS_KEY")
    origins = f"http://{HOST}:{page},http://localhost:{page}"
    with folder(f".demo/{name}") as data, Topics(f"http://{HOST}:{own}") as topics:
        settings = {"TOPICS_DATA": str(data), "WEB_WORKERS": "1", "WORKER_PROCESSES": "1", **listen_on(own)}
        settings["CORS_ALLOWED_ORIGINS"] = os.environ.get("CORS_ALLOWED_ORIGINS", origins)
        child = Child(
            "topics", [sys.executable, str(ROOT / "manage.py"), "run"], data / "topics.log", settings, patience=60
        )
        say("Starting topics …")
        try:
            child.start()
            wait_until_ready(child, own, "/v0/ready", stopping)
            yield Here(f"http://{HOST}:{own}", topics, page, stopping)
        finally:
            stop_all([child])


@contextmanager
def page(here: Here, file: Path) -> Iterator[str]:
    """Serves the page, the JavaScript client as `/client/`, and the address of topics. Yields the page's address.

    Raises Refusal if a browser would keep the answers of topics from the page.
    """
    check_answers(here.url, f"http://{HOST}:{here.port}")

    class Files(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/topics.json":
                return super().do_GET()
            body = json.dumps(here.url).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return None

        def translate_path(self, path: str) -> str:
            if path.startswith("/client/"):
                return super().translate_path(path.removeprefix("/client"))
            return str(file)

        def log_message(self, *_: object) -> None: ...

    handler = functools.partial(Files, directory=str(CLIENT))
    with http.server.ThreadingHTTPServer((HOST, here.port), handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        try:
            yield f"http://{HOST}:{here.port}/"
        finally:
            site.shutdown()


def check_answers(url: str, origin: str) -> None:
    """Raises Refusal if the server does not answer pages of the origin, which have no key."""
    asked = urllib.request.Request(f"{url.rstrip('/')}/v0/topics?page_size=1", headers={"Origin": origin})
    try:
        with urllib.request.urlopen(asked, timeout=5) as answer:
            is_allowed = answer.headers["Access-Control-Allow-Origin"] is not None
    except OSError as error:
        raise Refusal(f"{url} does not answer the page, which has no key ({error}).") from error
    if not is_allowed:
        raise Refusal(f"pages of {origin} may not call {url}: start that server with CORS_ALLOWED_ORIGINS={origin}.")
