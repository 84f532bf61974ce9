"""Authentication of the bus: clients with one token each, and the root key (docs/push.md).

A token is the username of HTTP Basic. The password is ignored. Routemaster's page demands that tokens can be listed, so they are
stored in plain text. Tokens are shown to the root key alone, and appear in no log. Each lookup uses a keyed hash, so that the
lookup's time reveals nothing about tokens.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

from django.conf import settings

from base.clock import now_ms
from base.errors import InvalidRequest, Unauthorized
from push.bus.names import check_token
from store.database import mend
from store.script import Script, Statement, atomically, run
from topics import audit
from wire.access.keys import FRESH_SECONDS, Key

# Other creations and deletes wait here, so that none of the statements below misses a token. Publishing and subscribing do not
# wait: they refer to clients by foreign keys. There are few clients, so no statement needs an index.
LOCK = "LOCK TABLE push_busclient IN SHARE ROW EXCLUSIVE MODE"
OTHERS = "SELECT token FROM push_busclient WHERE token IS NOT NULL AND token <> %(token)s"
# Creating a deleted token again restores its client, with the client's topics and subscription. Processes of an earlier version
# may have deleted the same token twice. Then the client that was deleted last counts.
RESTORE = """
UPDATE push_busclient SET token = %(token)s, name = %(name)s, token_sha256 = NULL, deleted_ts = NULL
 WHERE id = (SELECT max(id) FROM push_busclient WHERE token_sha256 = sha256(convert_to(%(token)s, 'UTF8')))
   AND NOT EXISTS (SELECT FROM push_busclient WHERE token = %(token)s)
RETURNING id
"""
ADD = """
INSERT INTO push_busclient AS client (name, token, created_ts) VALUES (%(name)s, %(token)s, %(now)s)
ON CONFLICT (token) DO UPDATE SET name = excluded.name
RETURNING id, xmax = 0
"""
DELETE = """
UPDATE push_busclient SET token = NULL, token_sha256 = sha256(convert_to(token, 'UTF8')), deleted_ts = %(now)s
 WHERE token = %(token)s
RETURNING id, name
"""
ALL = "SELECT id, name, token FROM push_busclient WHERE token IS NOT NULL ORDER BY id"
CONFUSABLE = "look the same in HTTP Basic, because one is the start of the other, up to a colon"
NOBODY = "unknown or missing token: send a client's token as the username of HTTP Basic"
MOST_NAME = 128  # characters of a username that are looked at: no token is longer


@dataclass(frozen=True, slots=True)
class BusKey(Key):
    """A client or the root key. Scopes: `client` or `root`, and the scopes that both have."""

    def check(self, *scopes: str) -> None:
        for scope in scopes:
            if scope not in self.scopes:
                wanted = "the root key" if scope == "root" else "a client's token, not the root key"
                raise Unauthorized(f"this takes {wanted}")

    @property
    def client_id(self) -> int:
        return int(self.id.removeprefix("bus:"))

    def sees_secrets_of(self, client_id: int) -> bool:
        return "root" in self.scopes or self.client_id == client_id


ROOT = BusKey("bus:root", frozenset(("root", "monitor", "delete")), name="root")


class Client(NamedTuple):
    """A client as it is stored."""

    id: int
    name: str
    token: str

    def key(self) -> BusKey:
        return BusKey(f"bus:{self.id}", frozenset(("client", "monitor", "delete")), name=self.name)


class Clients:
    """The clients known to this process, read at most a second ago. Like wire.access.keys.Keyring, for Basic credentials."""

    def __init__(self) -> None:
        self.pepper = secrets.token_bytes(32)  # key of the hashes of tokens, for this process only
        self.keys: dict[bytes, BusKey] = {}
        self.seen: dict[str, BusKey] = {}  # accepted headers since the last refresh: most requests repeat one
        self.fresh_until = self.read_at = 0.0
        self.seeded = False
        self.lock = threading.Lock()

    @property
    def stale(self) -> bool:
        return time.monotonic() >= self.fresh_until

    @property
    def aging(self) -> bool:
        return time.monotonic() >= self.fresh_until - FRESH_SECONDS / 2

    def refresh(self) -> None:
        """Reads the clients again. Runs queries, so call it outside of event loops."""
        with self.lock:
            if not self.aging:
                return  # another thread has just refreshed
            mend()
            if not self.seeded:
                run(seed(now_ms()))
                self.seeded = True
            read_at = time.monotonic()
            keys = {self.hashed(client.token): client.key() for client in run(clients())}
            if settings.ROUTEMASTER_ROOT_KEY:
                keys[self.hashed(settings.ROUTEMASTER_ROOT_KEY)] = ROOT
            self.keys, self.seen, self.read_at = keys, {}, read_at
            self.fresh_until = time.monotonic() + FRESH_SECONDS

    def forget(self) -> None:
        """Makes the next request read the clients again."""
        self.fresh_until = 0.0

    def revalidate(self, came: float) -> None:
        """Calls forget() if the clients were read before `came`: another process may have created a token since."""
        if self.read_at < came:
            self.forget()

    def hashed(self, token: str) -> bytes:
        return hmac.digest(self.pepper, token.encode(), hashlib.sha256)

    def authenticate(self, authorization: str | None) -> Key:
        """Returns the key of an Authorization header. Raises Unauthorized. If `stale`, call refresh() first."""
        if authorization is None:
            raise Unauthorized(NOBODY)
        if (seen := self.seen.get(authorization)) is not None:
            return seen
        for name in usernames(authorization):
            key = self.keys.get(self.hashed(name))
            if key is not None:
                self.seen[authorization] = key
                return key
        raise Unauthorized(NOBODY)


def usernames(authorization: str) -> list[str]:
    """Returns each possible username of Basic credentials, the longest first.

    A username ends at a colon, but tokens may contain colons too.
    """
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return []
    try:
        given = base64.b64decode(encoded.strip(), validate=True).decode()[: MOST_NAME + 1]
    except ValueError:  # a character that is not ASCII, wrong base64, or bytes that are not UTF-8
        return []
    parts = given.split(":")
    return [":".join(parts[:count]) for count in range(len(parts), 0, -1)]


def are_confusable(one: str, other: str) -> bool:
    """Returns whether credentials can mean either token: both are equal, or one is the other's part before a colon."""
    return one == other or one.startswith(f"{other}:") or other.startswith(f"{one}:")


bus_clients = Clients()


def name_in(token: str) -> str:
    """Returns the name in a token, the part before `--`. Without a name: `client`, because the whole token is a secret."""
    name, dashes, _ = token.partition("--")
    return name if dashes and name else "client"


def seed(now: int) -> Script[None]:
    """Adds the clients of ROUTEMASTER_CLIENTS. Existing clients keep their names."""
    known = {client.token for client in (yield from clients())}
    for token in settings.ROUTEMASTER_CLIENTS:
        if token not in known:
            yield from atomically(seed_locked(token, now))


def seed_locked(token: str, now: int) -> Script[None]:
    yield Statement(LOCK)
    if token not in {client.token for client in (yield from clients())}:  # another process may have been first
        yield from restore_or_add(name_in(token), token, now)


def clients() -> Script[list[Client]]:
    rows = yield Statement(ALL)
    return [Client(*row) for row in rows]


def add_client(name: str, token: str | None, now: int) -> Script[Client]:
    """Creates a client, restores a deleted one, or renames the client of this token. Raises InvalidRequest."""
    check_token(name, "name")
    token = f"{name}--{secrets.token_hex(16)}" if token is None else check_token(token, "token")
    root = settings.ROUTEMASTER_ROOT_KEY
    if token == root:  # the caller knows the root key
        raise InvalidRequest("this token is the root key: choose another token")
    if root and are_confusable(token, root):
        raise InvalidRequest(f"this token and the root key {CONFUSABLE}")
    return (yield from atomically(add_locked(name, token, now)))


def add_locked(name: str, token: str, now: int) -> Script[Client]:
    yield Statement(LOCK)
    others = yield Statement(OTHERS, {"token": token})
    if any(are_confusable(token, other) for (other,) in others):
        raise InvalidRequest(f"this token and another client's {CONFUSABLE}")
    id, is_new = yield from restore_or_add(name, token, now)
    client = Client(id, name, token)
    yield from audit.note("create" if is_new else "change", "key", f"bus:{name}.{id}")
    bus_clients.forget()
    return client


def restore_or_add(name: str, token: str, now: int) -> Script[tuple[int, bool]]:
    """Returns the client's id, and whether the token is new or restored. The caller holds the table's lock."""
    values = {"name": name, "token": token, "now": now}
    restored = yield Statement(RESTORE, values)
    if restored:
        return restored[0][0], True
    ((id, is_new),) = yield Statement(ADD, values)
    return id, is_new


def delete_client(token: str, now: int) -> Script[bool]:
    """Deletes a token. Its client's topics and subscription stay. Returns whether the token existed."""
    return atomically(delete_locked(token, now))


def delete_locked(token: str, now: int) -> Script[bool]:
    rows = yield Statement(DELETE, {"token": token, "now": now})
    for id, name in rows:
        yield from audit.note("delete", "key", f"bus:{name}.{id}")
    bus_clients.forget()
    return bool(rows)
