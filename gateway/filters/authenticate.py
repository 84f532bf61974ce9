"""Authenticate: identifies the subject of each request, by an API key, a JSON Web Token or a client certificate.

The filter removes the client's credentials. The filter ApiKey adds credentials for the server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import jwt
import msgspec

from base.errors import Unauthorized
from gateway.api import (
    FilterContext,
    FilterFactoryContext,
    Operation,
    PluginConfigError,
    Request,
    Response,
    Subject,
    without,
)
from gateway.shapes import Place
from gateway.watched_file import WatchedFile

SHA256_HEX = 64
LEEWAY_SECONDS = 10  # tolerance between the clocks of the gateway and of the token's issuer


class JwtConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """`jwksFile`: the issuer's public keys. A token must have this `issuer`, this `audience`, and an expiry (`exp`)."""

    jwks_file: str
    issuer: str
    audience: str
    subject_claim: str = "sub"
    roles_claim: str | None = None


class AuthenticateConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """`keysFile`: a line for each key with NAME, the SHA-256 of its secret in hex, and optional roles, separated by commas.

    `clientCertificates`: the subject is the common name of the client's certificate. `anonymous`: clients without credentials
    are also accepted.
    """

    keys_file: str | None = None
    jwt: JwtConfig | None = None
    client_certificates: bool = False
    anonymous: bool = False


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
        context.authenticated_subject = self.subject(token, context.peer_certificate)
        return request.replace(headers=without(request.headers, b"authorization"), query=query)

    async def on_response(self, operation: Operation, response: Response, context: FilterContext) -> Response:
        return response

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
        roles = claims.get(config.roles_claim, ()) if config.roles_claim else ()
        roles = roles.split() if isinstance(roles, str) else roles
        return Subject(str(claims[config.subject_claim]), tuple(map(str, roles)), claims)


def credentials(request: Request) -> tuple[str | None, str]:
    """Returns (the client's secret or token, or None; the query without the token).

    An `EventSource` sends no headers and uses `?token=` instead. Raises Unauthorized.
    """
    pairs = parse_qsl(request.query, keep_blank_values=True) if "token=" in request.query else []
    in_query = [value for name, value in pairs if name == "token"]
    query = urlencode([pair for pair in pairs if pair[0] != "token"]) if in_query else request.query
    header = request.header(b"authorization")
    if header is None:
        return (in_query[0] if in_query else None), query
    scheme, _, token = header.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized("Invalid header Authorization: send Authorization: Bearer SECRET.")
    return token.strip(), query


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

    def close(self, data: Keys) -> None: ...


def opened(context: FilterFactoryContext, field: str, path: str, parse: Any) -> WatchedFile[Any]:
    """Returns a watched file. Raises PluginConfigError."""
    try:
        return WatchedFile(context.file(path), parse)
    except OSError as error:
        raise PluginConfigError(f"{field}: {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise PluginConfigError(f"{field}: {path}: {error}.") from error
