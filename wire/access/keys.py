"""API keys with scopes and prefixes (docs/security.md).

A client sends `Authorization: Bearer <secret>`. The server keeps only the SHA-256 of a secret, also of keys in the environment.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection

from base.clock import now_ms
from base.errors import Forbidden, Unauthorized
from base.names import shown, within
from store.database import changed_rows, mend
from wire.access.forwarded import MOST_KNOWN

SECRET = re.compile(r"[!-~]+")  # characters that a header can carry
PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:>-]*", re.ASCII)
SCOPES = ("read", "write", "commit", "delete", "webhooks", "admin")
LEAST_SECRET = 16  # least characters of a secret in the environment, if others can reach the server
NEVER = 2**63 - 1  # the end of a key without one
# The keys of the admin that are valid (topics.models.ApiKey): a range of the index, so revoked and expired ones cost nothing.
KEYS = f"""
SELECT id, name, secret_sha256, previous_sha256, previous_until_ts, expires_ts, read, write, commit, delete_scope,
       webhooks, admin, prefixes
  FROM topics_apikey WHERE revoked_ts IS NULL AND coalesce(expires_ts, {NEVER}) > %s
"""
ANY = "SELECT FROM topics_apikey LIMIT 1"
# The last key stays, because a server without keys is open.
DROP_DEAD = """
DELETE FROM topics_apikey WHERE least(revoked_ts, expires_ts) < %s AND id < (SELECT max(id) FROM topics_apikey)
"""
# Accurate to the minute, because the last use is for people and not worth a write each second. SKIP LOCKED leaves out a key that
# another process notes now: two processes that wait for each other's keys would deadlock.
NOTE_USE = """
WITH stale AS (
    SELECT key.id, used.ts FROM unnest(%s::bigint[], %s::bigint[]) AS used (id, ts) JOIN topics_apikey key ON key.id = used.id
     WHERE last_used_ts IS NULL OR last_used_ts < used.ts - 60000
       FOR NO KEY UPDATE OF key SKIP LOCKED)
UPDATE topics_apikey SET last_used_ts = stale.ts FROM stale WHERE topics_apikey.id = stale.id
"""
DEAD_MS = 90 * 86_400_000  # a key is deleted so long after its end
FRESH_SECONDS = 1.0  # a new or revoked key takes effect in all processes within this time


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a request. `id` identifies the key without revealing its secret.

    `name` is for people. `digest` and `until_ms` belong to the secret that the client sent. A key that is being rotated has two
    secrets, and each has its own end (None: no end).
    """

    id: str
    scopes: frozenset[str]
    prefixes: tuple[str, ...] = ()
    name: str = field(default="", compare=False)
    digest: bytes = field(default=b"", compare=False, repr=False)
    until_ms: int | None = field(default=None, compare=False)
    address: str = field(default="", compare=False)  # address of the client, if no key is needed

    @property
    def holder(self) -> str:
        """The id for the caps: the key's, or the client's address if no key is needed."""
        return self.address or self.id

    @property
    def sees_all(self) -> bool:
        """Whether the key may read data about the whole server."""
        return "admin" in self.scopes and not self.prefixes

    def allows(self, name: str) -> bool:
        return within(name, self.prefixes)

    def shown(self, name: str) -> str:
        """Returns the name as answers to this key show it."""
        return shown(name, self.prefixes)

    def valid(self, now: int) -> bool:
        return self.until_ms is None or now < self.until_ms

    def check(self, *scopes: str) -> None:
        for scope in scopes:
            if scope not in self.scopes:
                raise Forbidden(f"this key lacks the scope {scope!r}: use another key, or add the scope", scope=scope)

    def check_name(self, name: str) -> None:
        if not self.allows(name):
            raise Forbidden(f"{name!r} is outside this key's prefixes: use another key, or add a prefix", name=name)


OPEN = Key("open", frozenset(SCOPES))


@lru_cache(MOST_KNOWN)
def open_to(address: str) -> Key:
    """Returns OPEN for a client at this address."""
    return replace(OPEN, address=address)


class MalformedKeys(ValueError):
    """TOPICS_API_KEYS is invalid. The message names the entry, never its secret."""


def sha256(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def granted(scopes: Iterable[str]) -> frozenset[str]:
    """Returns the scopes of a key. The scope `admin` includes `commit` and `webhooks`."""
    found = frozenset(scopes)
    return found | {"commit", "webhooks"} if "admin" in found else found


def parse_keys(text: str, least: int = 1) -> dict[bytes, Key]:
    """Parses `secret:scopes:prefix|prefix` entries, separated by commas. Scopes are joined by `+`, prefixes are optional.

    Returns the keys by the SHA-256 of their secrets. Raises MalformedKeys, also for a secret of fewer than `least` characters.
    """
    keys: dict[bytes, Key] = {}
    for place, entry in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        secret, _, rest = entry.partition(":")
        if not rest and secret in SCOPES:
            raise MalformedKeys(f"entry {place} is only a scope: join scopes with +, as in secret:read+write")
        scopes, _, prefixes = rest.partition(":")
        wanted = frozenset(scopes.replace("|", "+").split("+"))
        if not SECRET.fullmatch(secret) or not wanted <= frozenset(SCOPES):
            raise MalformedKeys(
                f"invalid entry {place}: expected secret:scopes:prefix|prefix with scopes from {'+'.join(SCOPES)}"
            )
        if prefixes and not all(PREFIX.fullmatch(prefix) for prefix in prefixes.split("|")):
            raise MalformedKeys(f"entry {place} has a prefix that no name can start with")
        if len(secret) < least:
            raise MalformedKeys(
                f"entry {place} has a secret of {len(secret)} characters: "
                f"expected at least {least}, or a loopback address as HOST"
            )
        digest = sha256(secret)
        if digest in keys:
            raise MalformedKeys(f"entry {place} has the secret of another entry: choose another secret")
        id = f"env:{digest.hex()[:12]}"
        keys[digest] = Key(id, granted(wanted), tuple(filter(None, prefixes.split("|"))), digest=digest)
    if text.strip() and not keys:
        raise MalformedKeys("the setting has no entry")  # an operator who sets it does not want an open server
    return keys


def new_secret() -> str:
    return "tk_" + secrets.token_urlsafe(32)


class Keyring:
    """The keys in this process: keys of the environment, and keys of the admin, at most a second old."""

    def __init__(self) -> None:
        self._fixed: dict[bytes, Key] | None = None
        self._keys: dict[bytes, Key] = {}
        self._configured = False
        self._fresh_until = 0.0
        self._used: dict[int, int] = {}
        self._lock = threading.Lock()

    @property
    def stale(self) -> bool:
        """Whether the keys are too old to use."""
        return time.monotonic() >= self._fresh_until

    @property
    def aging(self) -> bool:
        """Whether the keys are half as old as stale keys. If a request starts a refresh now, no other request has to wait."""
        return time.monotonic() >= self._fresh_until - FRESH_SECONDS / 2

    def refresh(self) -> None:
        """Read the admin's keys again, and store the last use of keys. Runs queries. Do not call this in an event loop."""
        with self._lock:
            if time.monotonic() < self._fresh_until - FRESH_SECONDS / 2:
                return  # another thread just did
            mend()  # Django checks connections only before requests, and not every calling thread serves requests
            if self._fixed is None:
                self._fixed = parse_keys(settings.TOPICS_API_KEYS)
            self._note_use()
            rows = [KeyRow(*row) for row in fetched(KEYS, now_ms())]
            self._keys = {**self._fixed, **by_digest(rows)}
            # Revoked and expired keys still count as configured, so that the end of the last key does not open the server.
            self._configured = bool(self._keys or fetched(ANY))
            self._fresh_until = time.monotonic() + FRESH_SECONDS

    def forget(self) -> None:
        """Read the keys again at the next request."""
        self._fresh_until = 0.0

    def holds(self, key: Key) -> bool:
        """Returns whether a request would still be authenticated as exactly this key. Long requests check this repeatedly."""
        if not self._configured:
            return key == OPEN
        now = self._keys.get(key.digest)
        return now is not None and now == key and now.valid(now_ms())

    def _note_use(self) -> None:
        used, self._used = self._used, {}
        if used:
            changed_rows(NOTE_USE, [list(used), list(used.values())])

    def authenticate(self, authorization: str | None) -> Key:
        """Returns the key of an Authorization header. Raises Unauthorized. If `stale`, call refresh() first."""
        if not self._configured:
            return OPEN
        scheme, _, secret = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise Unauthorized("the request has no key: send Authorization: Bearer <key>")
        # The time of the look tells nothing of a secret, because nobody can choose the beginning of a digest.
        key = self._keys.get(sha256(secret.strip()))
        if key is None or not key.valid(now_ms()):
            raise Unauthorized("this key is unknown, revoked or expired: use another key")
        if key.id.startswith("key:"):
            self._used[int(key.id[4:])] = now_ms()
        return key


class KeyRow(NamedTuple):
    """A stored key that is valid."""

    id: int
    name: str
    secret_sha256: bytes
    previous_sha256: bytes | None
    previous_until_ts: int | None
    expires_ts: int | None
    read: bool
    write: bool
    commit: bool
    delete_scope: bool
    webhooks: bool
    admin: bool
    prefixes: str

    def scopes(self) -> frozenset[str]:
        columns = (self.read, self.write, self.commit, self.delete_scope, self.webhooks, self.admin)
        return granted(scope for scope, is_on in zip(SCOPES, columns, strict=True) if is_on)

    def key(self, digest: bytes, until_ms: int | None) -> Key:
        return Key(f"key:{self.id}", self.scopes(), tuple(self.prefixes.split()), self.name, digest, until_ms)


def by_digest(rows: Iterable[KeyRow]) -> dict[bytes, Key]:
    """Returns the keys of these rows by the SHA-256 of the secret. A key that is being rotated has both of its secrets."""
    keys: dict[bytes, Key] = {}
    for row in rows:
        if row.previous_sha256 is not None and row.previous_until_ts is not None:
            ends = [ts for ts in (row.previous_until_ts, row.expires_ts) if ts is not None]
            keys[bytes(row.previous_sha256)] = row.key(bytes(row.previous_sha256), min(ends))
        keys[bytes(row.secret_sha256)] = row.key(bytes(row.secret_sha256), row.expires_ts)
    return keys


def drop_dead(now: int) -> int:
    """Deletes the keys that were revoked or expired long ago. Returns their number."""
    return changed_rows(DROP_DEAD, [now - DEAD_MS])


def fetched(statement: str, *arguments: int) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


keyring = Keyring()
