"""The bus's API on the common port: HTTP Basic, required TLS, and error responses of one plain sentence."""

from __future__ import annotations

from django.conf import settings

from base.errors import Internal, TopicsError, Unauthorized
from push.bus.clients import bus_clients
from wire import answer
from wire.access.keys import OPEN, Key
from wire.answer import Answer
from wire.api import Api

PLAIN = (b"content-type", b"text/plain; charset=utf-8")


class TLSWanted(TopicsError):
    """The request came without TLS, and has to be sent again to `location`."""

    status, code = 308, "tls_wanted"

    def __init__(self, location: str) -> None:
        super().__init__("the bus needs HTTPS: send the request over HTTPS")
        self.location = location


def check_tls(target: bytes, headers: dict[bytes, bytes]) -> None:
    """Raises TLSWanted for a request without TLS, before its token is looked at: the whole network may have read the token."""
    if not settings.FORCE_SSL:
        return
    if settings.TOPICS_TLS_PROXY and headers.get(b"x-forwarded-proto") == b"https":
        return
    host = headers.get(b"host", b"localhost").decode("latin-1")
    host = host if host.endswith("]") else host.rpartition(":")[0] or host  # without the port, which has no TLS
    raise TLSWanted(f"https://{host}{target.decode('latin-1')}")


def refusal(error: Exception, started: float, key: Key = OPEN) -> Answer:
    """Returns the error response, like wire.answer.refusal(), but as a sentence."""
    known = answer.domain_error(error)
    if known is None:
        answer.log.exception("A request failed. The client got 500", exc_info=error)
        known = Internal()
    headers = [PLAIN, *known.headers]
    if isinstance(known, TLSWanted):
        headers.append((b"location", known.location.encode()))
    elif isinstance(known, Unauthorized):
        headers.append((b"www-authenticate", b'Basic realm="topics"'))
    elif known.retry_after:
        headers.append((b"retry-after", b"%d" % known.retry_after))
    return Answer(known.status, f"{known.message}\n".encode(), tuple(headers))


# Not strict: Routemaster ignores queries, and its clients may send them.
BUS = Api(bus_clients, refusal, check_tls, bus_clients.revalidate, is_strict=False)
