"""Authenticate: identifies the subject of each request, by an API key, a JSON Web Token or a client certificate.

The filter removes the client's credentials. The filter ApiKey adds credentials for the server.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import jwt
import msgspec

from base.errors import Unauthorized
from gateway.api import (
    FilterContext,
    FilterFactoryContext,
    Operation,
    Place,
    PluginConfigError,
    Request,
    Response,
    Subject,
    without,
)
from gateway.watched_file import WatchedFile, opened
from wire.access.tokens import token_in

SHA256_HEX = 64
LEEWAY_SECONDS = 10  # tolerance between the clocks of the gateway and of the token's issuer


class JwtConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """JSON Web Tokens of one issuer."""

    jwks_file: str
    """The public keys of the issuer."""
    issuer: str
    """A token must have it, and an expiry (`exp`)."""
    audience: str
    """A token must have it."""
    subject_claim: str = "sub"
    """The claim that names the subject."""
    roles_claim: str | None = None
    """The claim that lists the roles."""


class AuthenticateConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The ways to recognise a client."""

    keys_file: str | None = None
    """API keys, one a line: `NAME SHA256 ROLE,ROLE`, with the secret's SHA-256 in hex and optional roles."""
    jwt: JwtConfig | None = None
    """JSON Web Tokens."""
    client_certificates: bool = False
    """The subject is the common name of the client's certificate."""
    anonymous: bool = False
    """Requests without credentials pass, without a subject."""


class Keys(NamedTuple):
    """The configuration and files that all filters of one place share."""

    config: AuthenticateConfig
    secrets: WatchedFile[dict[bytes, Subject]] | None
    issuer: WatchedFile[jwt.PyJWKSet] | None


class Authenticate:
    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        """Sets the subject and removes the credentials. Raises Unauthorized."""
        token, query = credentials(request)
        context.authenticated_subject = context.kept = self.subject(token, context.peer_certificate)
        return request.replace(headers=without(request.headers, b"authorization"), query=query)

    def still_allows(self, context: FilterContext) -> bool:
        """Returns whether the key or token of an open stream still names the same subject.

        The signature of a token does not change, so only its expiry and its issuer's key are looked at.
        """
        token, _ = credentials(context.request)
        subject: Subject = context.kept
        if token is None:
            return True  # a certificate, or an anonymous client: the connection and the configuration decide
        if self.keys.issuer is None or "exp" not in subject.claims:
            return self.by_secret(token) == subject
        return is_of(token, self.keys.issuer.value) and time.time() < subject.claims["exp"] + LEEWAY_SECONDS

    def subject(self, token: str | None, certificate: Mapping[str, Any] | None) -> Subject:
        if token is not None:
            found = self.by_secret(token) or self.by_token(token)
            if found is None:
                raise Unauthorized("Unknown key or token: use another one.")
            return found
        if self.keys.config.client_certificates and (name := common_name(certificate)):
            return Subject(name)
        if not self.keys.config.anonymous:
            raise Unauthorized("The request has no key: send Authorization: Bearer SECRET.")
        return Subject(None)

    def by_secret(self, token: str) -> Subject | None:
        if self.keys.secrets is None:
            return None
        return self.keys.secrets.value.get(hashlib.sha256(token.encode()).digest())

    def by_token(self, token: str) -> Subject | None:
        """Returns the subject of a JSON Web Token with a signature of the issuer, or None."""
        config, issuer = self.keys.config.jwt, self.keys.issuer
        if config is None or issuer is None or token.count(".") != 2:
            return None
        try:
            key = issuer.value[jwt.get_unverified_header(token)["kid"]]
            claims = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                issuer=config.issuer,
                audience=config.audience,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", config.subject_claim]},
            )
        except (jwt.PyJWTError, KeyError, ValueError) as error:
            raise Unauthorized(f"Invalid token: {error}.") from error
        roles = claims.get(config.roles_claim) if config.roles_claim else None
        roles = roles.split() if isinstance(roles, str) else roles
        if roles is not None and not isinstance(roles, list):
            raise Unauthorized(f"Invalid token: {config.roles_claim} is neither a text nor a list.")
        return Subject(str(claims[config.subject_claim]), tuple(map(str, roles or ())), claims)


def credentials(request: Request) -> tuple[str | None, str]:
    """Returns (the client's secret or token, or None; the query without the token).

    An `EventSource` sends no headers and uses `?token=` instead. Raises Unauthorized.
    """
    in_query, query = token_in(request.query)
    header = request.header(b"authorization")
    if header is None:
        return in_query, query
    scheme, _, token = header.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized("Invalid header Authorization: send Authorization: Bearer SECRET.")
    return token.strip(), query


def is_of(token: str, issuer: jwt.PyJWKSet) -> bool:
    """Returns whether the issuer has the key of a token."""
    return any(key.key_id == jwt.get_unverified_header(token).get("kid") for key in issuer.keys)


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    for part in (certificate or {}).get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return None


def parse_keys(text: str) -> dict[bytes, Subject]:
    """Returns the subjects by the digests of their secrets. Raises ValueError with the line."""
    found: dict[bytes, Subject] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) not in (2, 3) or len(words[1]) != SHA256_HEX or set(words[1].lower()) - set("0123456789abcdef"):
            raise ValueError(f"invalid line {number}: expected NAME, SHA-256 in hex, and optional roles")
        digest = bytes.fromhex(words[1])
        if digest in found:
            raise ValueError(f"line {number} has the secret of {found[digest].name!r}: choose another secret")
        found[digest] = Subject(words[0], tuple(filter(None, words[2].split(","))) if len(words) == 3 else ())
    return found


def parse_jwks(text: str) -> jwt.PyJWKSet:
    try:
        return jwt.PyJWKSet.from_json(text)
    except (jwt.PyJWTError, AttributeError, TypeError) as error:
        raise ValueError(f"invalid JSON Web Key Set: {error}") from error


class AuthenticateFactory:
    """Identifies the subject of a request by API key, JSON Web Token or client certificate."""

    places: frozenset[Place] = frozenset(("virtual cluster",))
    once = True

    passes_upgrades = True

    def initialize(self, context: FilterFactoryContext, config: AuthenticateConfig) -> Keys:
        if config.keys_file is None and config.jwt is None and not config.client_certificates:
            raise PluginConfigError(
                "expected keysFile, jwt or clientCertificates, because otherwise no client can authenticate."
            )
        return Keys(
            config,
            opened(context, "keysFile", config.keys_file, parse_keys) if config.keys_file is not None else None,
            opened(context, "jwt.jwksFile", config.jwt.jwks_file, parse_jwks) if config.jwt is not None else None,
        )

    def create_filter(self, context: FilterFactoryContext, data: Keys) -> Authenticate:
        return Authenticate(data)
