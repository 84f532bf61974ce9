"""HTTP/1.1 in an event loop, without a domain: a server protocol and a client with a pool of connections.

`Server(handler)` calls `handler(request)` for each request. The handler returns a `Response`, or a coroutine that returns a
`Response`. Only a coroutine costs a task. `Pool(host, port)` sends requests to one server. Bodies stream both ways with back
pressure.
"""

from http1.body import Body
from http1.client import Answer, Failure, Pool, Waits
from http1.errors import Refused
from http1.messages import Request, Response, Upgrade
from http1.server import Limits, Server

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
    "Upgrade",
    "Waits",
]
