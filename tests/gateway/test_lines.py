"""No text of a client becomes a line of its own in the gateway's request to a server."""

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.running import route, static, union
from tests.gateway.splicing import splice
from tests.gateway.test_static import OK, asked, raw_upstream

LINES = "%0d%0a%0d%0aDELETE%20/v0/topics/others%20HTTP/1.0"
STREAM = {"accept": "text/event-stream"}


def keyed(port: int, folder: Path) -> dict[str, Any]:
    """A server behind a Prefix and a key of its own."""
    (folder / "key").write_text("the-key-of-the-upstream")
    return {
        **static(port),
        "filterDefinitions": [
            {"name": "own", "type": "Prefix", "config": {"prefix": "own."}},
            {"name": "key", "type": "ApiKey", "config": {"keyFile": str(folder / "key")}},
        ],
        "routerDefinitions": [
            {"name": "as-it-is", "type": "StaticRouter", "routes": [route("one", 0, "own", "key", cluster="one")]}
        ],
    }


def spliced(port: int) -> dict[str, Any]:
    return splice(port, port, {"orders": [{"route": "old", "topic": "a", "upto": 2}, {"route": "new", "topic": "b"}]})


@pytest.mark.parametrize(
    ("behind", "path"),
    [
        ("static", f"/v0/topics/orders/events?lastEventId=orders:5{LINES}"),
        ("static", f"/v0/watch/w?lastEventId=e30=%0a{LINES}"),
        ("static", "/v0/topics/orders/events?lastEventId=orders:5%00"),
        ("keyed", f"/v0/topics/orders/events?lastEventId=orders:5{LINES}"),
        ("union", f"/v0/topics/eu.orders/events?lastEventId=eu.orders{LINES.replace('%', '%25')}:5"),
        ("spliced", f"/v0/topics/orders/events?lastEventId=orders:1&token=k{LINES}"),
    ],
)
def test_a_line_in_a_query_is_400_and_the_server_gets_nothing(gateways, tmp_path: Path, behind: str, path: str) -> None:
    got: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        while True:
            got.append(asked(connection))
            connection.sendall(OK)

    with ExitStack() as stack:
        port, other = (stack.enter_context(raw_upstream(talk)) for _ in range(2))
        made = {
            "static": lambda: static(port),
            "keyed": lambda: keyed(port, tmp_path),
            "union": lambda: union(port, other),
            "spliced": lambda: spliced(port),
        }
        client = gateways(made[behind]()).client()
        refused = client.get(path, **STREAM)
        assert (refused.status, refused.code, got) == (400, "invalid_request", [])
