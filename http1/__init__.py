"""HTTP/1.1 in an event loop, without a domain: a server protocol and a client with a pool of connections.

`Server(handler)` calls `handler(request)` for each request. The handler returns a `Response`, a `WrittenAnswer`, or a
coroutine that returns one. Only a coroutine, a `WrittenAnswer` and a body in parts cost a task. `Pool(host, port)` sends requests
to one server. Bodies stream both ways with back pressure.

A connection of the server (`connection.py`) has three parts. Its reader makes requests of bytes (`reader.py`), its handlers
answer them (`handlers.py`), and its exchanges keep the order of the answers (`exchanges.py`). Reader and connection have tables
of their states.

Why a server of our own (November 2026)? Granian cost 60 µs of a call that does nothing, most of it to hand the request over
between threads, and uvicorn 69 µs. A protocol of uvloop with httptools needs 19 µs. Medians of three alternating blocks of 4 s
on two cores with `wrk`, before and after:

    append of 1, 16 connections    11,144/s    17,738/s    1.61 times
    diff of 1, 8 connections        9,530/s    17,494/s    1.84 times
    health, 32 connections         40,576/s    62,061/s    1.53 times

The price: HTTP/2 in clear is refused, and the parts of HTTP that a server can get wrong are ours now, so `tests/http1/` sends
requests that two readers could read in two ways. Rejected: an ASGI app behind this server gained 1.2 to 1.7 instead of 1.5 to
1.9. mypyc for `store/`, the server and the fast path gained nothing, and cannot compile modules with structs of msgspec.
Handlers without a task of their own, one connection for reads instead of two, and a frozen garbage collector brought no clear
gain.
"""

from http1.acceptor import Shares
from http1.body import Body
from http1.client import Answer, Failure, Pool, Waits
from http1.errors import BrokenOff, Refused
from http1.handlers import Answering, Handler
from http1.limits import Limits
from http1.messages import Request, Response, Upgrade
from http1.server import Server
from http1.writer import Writer, WrittenAnswer

__all__ = [
    "Answer",
    "Answering",
    "Body",
    "BrokenOff",
    "Failure",
    "Handler",
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
    "WrittenAnswer",
]
