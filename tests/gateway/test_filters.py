"""Each filter's effect on a request, and refused configurations."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from base.errors import Forbidden, InvalidRequest, Throttled, TopicsError, Unauthorized
from gateway.api import ANONYMOUS, PluginConfigError, Request, Response, Subject
from gateway.errors import NotOffered
from gateway.filters.api_key import ApiKeyFactory
from gateway.filters.audit import AuditFactory
from gateway.filters.authenticate import AuthenticateFactory
from gateway.filters.deny import DenyFactory
from gateway.filters.node import NodeFactory
from gateway.filters.prefix import PrefixFactory
from gateway.filters.rate_limit import Buckets, RateLimitFactory
from http1 import Request as HttpRequest
from tests.instances import until


@dataclass
class Context:
    """What the runtime gives to a filter: where it stands, and who asks."""

    folder: Path
    authenticated_subject: Subject = ANONYMOUS
    peer_certificate: Mapping[str, Any] | None = None
    origin: str = "10.1.2.3"
    session_id: str = "s1"
    virtual_cluster_name: str = "all"
    filter_name: str = "f"
    route: str | None = None
    request: Request = field(default_factory=lambda: Request("GET", "/v0/topics"))
    kept: Any = None

    def file(self, path: str) -> Path:
        return self.folder / path

    async def send_request(self, request: Request) -> Response:
        raise AssertionError(f"the filter sends {request}")


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(tmp_path)


def made(factory: Any, context: Context, **config: Any) -> Any:
    """The filter of a configuration as it stands in a file."""
    typed = msgspec.convert(config, get_type_hints(factory.initialize)["config"])
    return factory.create_filter(context, factory.initialize(context, typed))


def passed(it: Any, context: Context, request: Request) -> Request:
    """The request as it goes on. Raises what the filter raises."""
    context.request = request
    found = asyncio.run(it.on_request(request.operation, request, context))
    assert isinstance(found, Request)
    return found


def body_of(request: Request) -> Any:
    return json.loads(asyncio.run(request.body()))


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {token}".encode()), (b"accept", b"*/*")]


# -- Authenticate ------------------------------------------------------------------------------------------------------


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def with_keys(context: Context, text: str, **config: Any) -> Any:
    (context.folder / "keys").write_text(text)
    return made(AuthenticateFactory(), context, keysFile="keys", **config)


def test_a_key_gives_its_subject_and_goes_no_further(context: Context) -> None:
    it = with_keys(context, f"# ours\n\nbilling {digest('secret')} reader,writer\naudit {digest('other')}\n")
    found = passed(it, context, Request("GET", "/v0/topics/orders", "limit=2", bearer("secret")))
    assert context.authenticated_subject == Subject("billing", ("reader", "writer"))
    assert found.headers == [(b"accept", b"*/*")]
    found = passed(it, context, Request("GET", "/v0/watch/w", "a=1&token=other"))
    assert (context.authenticated_subject.name, found.query) == ("audit", "a=1")


@pytest.mark.parametrize(
    "query", ["%74oken=other", "token=secret&a=%20b&%74%6f%6B%65n=ot%68er", "to%6ben=other&token="]
)
def test_a_token_is_read_as_the_server_reads_it(context: Context, query: str) -> None:
    it = with_keys(context, f"billing {digest('secret')}\naudit {digest('other')}\n")
    found = passed(it, context, Request("GET", "/v0/watch/w", query))
    assert (context.authenticated_subject.name, found.query) == ("audit", "a=%20b" if "a=" in query else "")
    (context.folder / "upstream").write_text("ours")
    found = passed(made(ApiKeyFactory(), context, keyFile="upstream"), context, Request("GET", "/v0/watch/w", query))
    assert found.query == ("a=%20b" if "a=" in query else "")
    assert found.header(b"authorization") == b"Bearer ours"


def test_a_repeated_header_is_read_as_the_server_reads_it(context: Context) -> None:
    it = with_keys(context, f"billing {digest('secret')}\naudit {digest('other')}\n")
    found = passed(it, context, Request("GET", "/v0/topics", headers=[*bearer("secret"), *bearer("other")]))
    assert (context.authenticated_subject.name, found.header(b"authorization")) == ("audit", None)
    server = HttpRequest("GET", b"/", [*bearer("secret"), *bearer("other")], None)  # type: ignore[arg-type]
    assert server.header(b"authorization") == b"Bearer other"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        bearer("unknown"),
        [(b"authorization", b"Basic c2VjcmV0Og==")],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"\xff\xfe")],
        bearer("a.b.c"),
    ],
)
def test_a_client_without_a_known_key_is_401(context: Context, headers: list[tuple[bytes, bytes]]) -> None:
    it = with_keys(context, f"billing {digest('secret')}")
    with pytest.raises(Unauthorized):
        passed(it, context, Request("GET", "/v0/topics", headers=headers))


def test_a_client_without_a_key_may_be_let_in_and_one_with_a_wrong_key_never(context: Context) -> None:
    it = with_keys(context, f"billing {digest('secret')}", anonymous=True)
    passed(it, context, Request("GET", "/v0/topics"))
    assert context.authenticated_subject.is_anonymous
    with pytest.raises(Unauthorized):
        passed(it, context, Request("GET", "/v0/topics", headers=bearer("unknown")))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("billing", "invalid line 1: expected NAME"),
        (f"a {digest('x')}\nb {digest('x')}", "line 2 has the secret of 'a'"),
        ("\na 12", "line 2"),
        (f"a {'g' * 64}", "line 1"),
    ],
)
def test_a_file_of_keys_with_a_fault_refuses_to_start(context: Context, text: str, said: str) -> None:
    with pytest.raises(PluginConfigError, match=said):
        with_keys(context, text)


def test_a_changed_file_of_keys_counts_and_a_broken_one_does_not(
    context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    it = with_keys(context, f"billing {digest('secret')}")
    request = Request("GET", "/v0/topics", headers=bearer("new"))

    def comes_in() -> bool:
        try:
            passed(it, context, request)
        except Unauthorized:
            return False
        return True

    assert not comes_in()
    (context.folder / "keys").write_text(f"later {digest('new')}\n")
    until(comes_in, "the new key to count")
    (context.folder / "keys").write_text("broken")
    until(
        lambda: "The gateway keeps its last version" in caplog.text or (comes_in() and False),
        "the broken file to be told",
    )
    assert comes_in()


def issued() -> ec.EllipticCurvePrivateKey:
    """A key with which an issuer signs tokens."""
    return ec.generate_private_key(ec.SECP256R1())


def publish(file: Path, **keys: ec.EllipticCurvePrivateKey) -> None:
    """Writes the public keys of an issuer, by their ids."""
    of = jwt.algorithms.ECAlgorithm.to_jwk
    public = [{**of(key.public_key(), as_dict=True), "kid": kid, "alg": "ES256"} for kid, key in keys.items()]
    file.write_text(json.dumps({"keys": public}))


def tokens(context: Context, **config: Any) -> tuple[Any, ec.EllipticCurvePrivateKey]:
    key = issued()
    publish(context.folder / "jwks", k1=key)
    wanted = {"jwksFile": "jwks", "issuer": "https://id.example", "audience": "topics", **config}
    return made(AuthenticateFactory(), context, jwt=wanted), key


CLAIMS = {"sub": "billing", "iss": "https://id.example", "aud": "topics", "groups": ["reader", "ops"]}


def token(key: Any, kid: str = "k1", algorithm: str = "ES256", **claims: Any) -> str:
    whole = {**CLAIMS, "exp": timedelta(minutes=5), **claims}
    now = datetime.now(UTC)
    whole = {
        name: now + value if isinstance(value, timedelta) else value
        for name, value in whole.items()
        if value is not None or name == "groups"
    }
    return jwt.encode(whole, key, algorithm=algorithm, headers={"kid": kid})


def test_a_token_of_the_issuer_gives_its_subject(context: Context) -> None:
    it, key = tokens(context, rolesClaim="groups")
    passed(it, context, Request("GET", "/v0/topics", headers=bearer(token(key))))
    assert context.authenticated_subject == Subject("billing", ("reader", "ops"))


def test_a_token_without_roles_gives_none(context: Context) -> None:
    it, key = tokens(context, rolesClaim="groups")
    passed(it, context, Request("GET", "/v0/topics", headers=bearer(token(key, groups=None))))
    assert context.authenticated_subject == Subject("billing")
    with pytest.raises(Unauthorized, match="groups is neither"):
        passed(it, context, Request("GET", "/v0/topics", headers=bearer(token(key, groups=7))))


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other.example"},
        {"aud": "else"},
        {"exp": timedelta(minutes=-5)},
        {"exp": None},
        {"sub": None},
        {"nbf": timedelta(minutes=5)},
    ],
)
def test_a_token_for_somebody_else_or_another_time_is_401(context: Context, claims: dict[str, Any]) -> None:
    it, key = tokens(context)
    with pytest.raises(Unauthorized):
        passed(it, context, Request("GET", "/v0/topics", headers=bearer(token(key, **claims))))


def test_a_forged_token_is_401(context: Context) -> None:
    it, key = tokens(context)
    forged = issued()
    nothing = jwt.encode({**CLAIMS, "exp": 2**31}, "", algorithm="none", headers={"kid": "k1"})
    confused = jwt.encode({**CLAIMS, "exp": 2**31}, "x" * 64, algorithm="HS256", headers={"kid": "k1"})
    for each in (token(forged), token(key, kid="k2"), nothing, confused):
        with pytest.raises(Unauthorized):
            passed(it, context, Request("GET", "/v0/topics", headers=bearer(each)))


def test_a_client_certificate_gives_its_common_name(context: Context) -> None:
    it = made(AuthenticateFactory(), context, clientCertificates=True)
    with pytest.raises(Unauthorized):
        passed(it, context, Request("GET", "/v0/topics"))
    context.peer_certificate = {"subject": ((("countryName", "DE"),), (("commonName", "billing"),))}
    passed(it, context, Request("GET", "/v0/topics"))
    assert context.authenticated_subject == Subject("billing")


def test_an_authenticate_that_lets_nobody_in_refuses_to_start(context: Context) -> None:
    with pytest.raises(PluginConfigError, match="expected keysFile, jwt or clientCertificates"):
        made(AuthenticateFactory(), context, anonymous=True)
    with pytest.raises(PluginConfigError, match="none cannot be read"):
        made(AuthenticateFactory(), context, keysFile="none")
    (context.folder / "jwks").write_text("[]")
    with pytest.raises(PluginConfigError, match="invalid JSON Web Key Set"):
        made(AuthenticateFactory(), context, jwt={"jwksFile": "jwks", "issuer": "i", "audience": "a"})


# -- Prefix and Node --------------------------------------------------------------------------------------------------


def test_a_prefix_renames_topics(context: Context) -> None:
    it = made(PrefixFactory(), context, prefix="eu.")
    assert passed(it, context, Request("GET", "/v0/topics/orders")).path == "/v0/topics/eu.orders"
    answer = Response.json(200, {"topic": "eu.orders"})
    found = asyncio.run(it.on_response(context.request.operation, answer, context))
    assert json.loads(asyncio.run(found.read())) == {"topic": "orders"}
    assert passed(it, context, Request("GET", "/v0/topics", "page_size=2")).query == "page_size=2&prefix=eu."
    assert passed(it, context, Request("GET", "/v0/routers", "prefix=or")).query == "prefix=eu.or"


@pytest.mark.parametrize("prefix", ["", ".eu", "e u", "x" * 201, "é"])
def test_a_prefix_that_no_name_can_have_refuses_to_start(context: Context, prefix: str) -> None:
    with pytest.raises(PluginConfigError, match="expected the start of a topic's name"):
        made(PrefixFactory(), context, prefix=prefix)


@pytest.mark.parametrize("name", [".x", "-", "a b", "%C3%A9", "a" * 253])
def test_a_name_that_the_server_would_refuse_is_refused_before_the_prefix(context: Context, name: str) -> None:
    with pytest.raises(InvalidRequest, match="expected"):
        passed(made(PrefixFactory(), context, prefix="eu."), context, Request("PUT", f"/v0/topics/{name}"))
    passed(made(PrefixFactory(), context, prefix="eu."), context, Request("PUT", f"/v0/topics/{'a' * 252}"))


def test_a_node_is_set_where_the_client_says_none(context: Context) -> None:
    it = made(NodeFactory(), context, name="eu")
    append = Request("POST", "/v0/topics/t", body=b'{"records":[{"data": 1.0E5,"node":"own"}]}')
    assert asyncio.run(passed(it, context, append).body()) == b'{"records":[{"data": 1.0E5,"node":"own"}],"node":"eu"}'
    diff = Request("POST", "/v0/topics/t/diff", body=b'{"node":["a"]}')
    assert body_of(passed(it, context, diff)) == {"node": ["a"]}
    assert body_of(passed(it, context, Request("POST", "/v0/topics/t/diff"))) == {"node": "eu"}
    assert passed(it, context, Request("GET", "/v0/topics/t/records", "limit=2")).query == "limit=2&node=eu"
    assert passed(it, context, Request("GET", "/v0/topics/t/records", "node=a")).query == "node=a"
    assert passed(it, context, Request("GET", "/v0/topics", "limit=2")).query == "limit=2"


def test_a_forced_node_replaces_every_other(context: Context) -> None:
    it = made(NodeFactory(), context, fromSubject=True, force=True)
    context.authenticated_subject = Subject("billing")
    append = Request("POST", "/v0/topics/t", body=b'{"node":"x","records":[{"data": 1.0E5 ,"node":"own"}]}')
    assert asyncio.run(passed(it, context, append).body()) == b'{"node":"billing","records":[{"data":1.0E5}]}'
    assert passed(it, context, Request("GET", "/v0/topics/t/records", "node=a&node=b")).query == "node=billing"
    broken = Request("POST", "/v0/topics/t", body=b"[1")
    assert asyncio.run(passed(it, context, broken).body()) == b"[1"


def test_a_node_without_a_name_refuses_to_start(context: Context) -> None:
    for config in ({}, {"name": "a", "fromSubject": True}, {"name": ""}, {"name": "x" * 129}):
        with pytest.raises(PluginConfigError):
            made(NodeFactory(), context, **config)


# -- Deny, RateLimit, Audit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "request_", "is_refused"),
    [
        ({"operations": ["writes"]}, ("POST", "/v0/topics/orders"), True),
        ({"operations": ["writes"]}, ("POST", "/v0/topics/orders/diff"), False),
        ({"operations": ["reads"], "topics": ["ord*"]}, ("GET", "/v0/topics/orders"), True),
        ({"topics": ["order"]}, ("GET", "/v0/topics/orders"), False),
        ({"topics": ["secret*"]}, ("POST", "/v0/watch", b'{"topics":{"a":{},"secrets":{}}}'), True),
        ({"topics": ["secret*"]}, ("PUT", "/v0/routers/r", b'{"source":"a","dest":"secret"}'), True),
        ({"subjects": ["bil*"], "operations": ["delete_topic"]}, ("DELETE", "/v0/topics/a"), True),
        ({"subjects": ["audit"]}, ("DELETE", "/v0/topics/a"), False),
        ({"roles": ["guest"]}, ("GET", "/v0/topics"), True),
        ({"operations": ["bus"]}, ("POST", "/topics/orders", b"{}"), True),
    ],
)
def test_a_rule_refuses_what_it_says(context: Context, rule: Any, request_: Any, is_refused: bool) -> None:
    it = made(DenyFactory(), context, rules=[{"operations": ["get_metrics"]}, rule])
    context.authenticated_subject = Subject("billing", ("guest",))
    method, path, *body = request_
    request = Request(method, path, body=body[0] if body else b"")
    if is_refused:
        with pytest.raises(Forbidden, match="is refused"):
            passed(it, context, request)
    else:
        assert passed(it, context, request) is request


def test_a_rule_of_no_operation_refuses_to_start(context: Context) -> None:
    for rules in ([], [{"operations": ["apend"]}], [{"topics": ["a*b"]}], [{"subjects": [""]}]):
        with pytest.raises(PluginConfigError):
            made(DenyFactory(), context, rules=rules)


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    now = [0.0]
    buckets = Buckets(2.0, 3, lambda: now[0])
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.take("b") == 0.0
    now[0] = 0.25
    assert buckets.take("a") == pytest.approx(0.25)
    now[0] = 0.5
    assert [buckets.take("a"), buckets.take("a")] == [0.0, pytest.approx(0.5)]
    now[0] = 1000.0
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_a_request_too_many_is_429_with_a_time(context: Context) -> None:
    it = made(RateLimitFactory(), context, requestsPerSecond=0.1, burst=1)
    context.authenticated_subject = Subject("billing")
    request = Request("GET", "/v0/topics")
    passed(it, context, request)
    with pytest.raises(Throttled) as caught:
        passed(it, context, request)
    assert caught.value.retry_after == 10
    context.authenticated_subject = Subject("audit")
    passed(it, context, request)


@pytest.mark.parametrize("by", ["address", "subject"])
def test_an_ipv6_network_of_a_customer_shares_a_limit(context: Context, by: str) -> None:
    """A customer of a provider has 2**64 addresses. A client without a subject counts by its address, too."""
    it = made(RateLimitFactory(), context, requestsPerSecond=0.1, burst=1, by=by)
    request = Request("GET", "/v0/topics")
    context.origin = "2001:db8:1:2::1"
    passed(it, context, request)
    context.origin = "2001:db8:1:2:ffff:ffff:ffff:ffff"
    with pytest.raises(Throttled):
        passed(it, context, request)
    for other in ("2001:db8:1:3::1", "10.1.2.3", "::ffff:10.1.2.4"):
        context.origin = other
        passed(it, context, request)


def test_every_write_is_a_line(context: Context, tmp_path: Path) -> None:
    factory = AuditFactory()
    it = made(factory, context, file=str(tmp_path / "audit.log"))
    context.authenticated_subject = Subject("billing")

    def ask(method: str, path: str, status: int) -> None:
        request = passed(it, context, Request(method, path))
        asyncio.run(it.on_response(request.operation, Response(status), context))

    ask("POST", "/v0/topics/orders", 201)
    ask("GET", "/v0/topics/orders", 200)
    ask("DELETE", "/v0/topics/orders", 403)
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [(line["operation"], line["topic"], line["status"]) for line in lines] == [
        ("append", "orders", 201),
        ("delete_topic", "orders", 403),
    ]
    assert lines[0].keys() >= {"ts", "subject", "origin", "session", "ms", "virtual_cluster"}
    (tmp_path / "audit.log").rename(tmp_path / "audit.log.1")
    ask("POST", "/v0/topics/orders", 201)
    assert len((tmp_path / "audit.log").read_text().splitlines()) == 1
    factory.close((it.log, it.config))


def test_an_audit_that_cannot_be_written_refuses_to_start(context: Context) -> None:
    with pytest.raises(PluginConfigError, match="cannot be written"):
        made(AuditFactory(), context, file="/nowhere/audit.log")


def test_refusals_are_in_the_shape_of_the_wire() -> None:
    assert all(issubclass(each, TopicsError) for each in (Unauthorized, Forbidden, Throttled, NotOffered))
