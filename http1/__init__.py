"""HTTP/1.1 in an event loop, without a domain: a server protocol and a client with a pool of connections.

`Server(handler)` calls `handler(request)` for each request. The handler returns a `Response`, a `Written`, or a coroutine that
returns one. Only a coroutine, a `Written` and a body in parts cost a task. `Pool(host, port)` sends requests to one server.
Bodies stream both ways with back pressure.
"""

from http1.acceptor import Shares
from http1.body import Body
from http1.client import Answer, Failure, Pool, Waits
from http1.errors import Refused
from http1.messages import Request, Response, Upgrade
from http1.server import Limits, Server
from http1.writer import Writer, Written

__all__ = [
    "Answer",
    "Body",
    "Failure",
    "Limits",
    "Pool",
    "Refused",
    "Request",
    "Response",
    "Server",
    "Shares",
    "Upgrade",
    "Waits",
    "Writer",
    "Written",
]
