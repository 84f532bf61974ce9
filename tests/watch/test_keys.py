"""Keys and caps: allowed topics of a stream, and the number of streams."""

from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import cast

import pytest

from base.clock import now_ms
from store.script import Script, run
from tests.deadlines import DEADLINE
from tests.instances import Instance, until
from tests.watch.wire import Api, Refused, Stream, new_name
from topics.models import StreamCount
from watch.hub import Hub
from watch.registry import Registry
from wire.access import client
from wire.access.keys import OPEN

pytestmark = pytest.mark.deep


KEYS = "alpha:read+write+admin,beta:read:b-,gamma:write,delta:read+write+admin"


@pytest.fixture(scope="module")
def keyed() -> Instance:
    from tests.instances import start

    with start(TOPICS_API_KEYS=KEYS) as instance:
        yield instance


@pytest.fixture
def alpha(keyed: Instance) -> Api:
    return Api(keyed.port, "alpha")


def refused(api: Api, url: str, **headers: str) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        api.stream(url, **headers)
    return caught.value.status, caught.value.code


def test_the_creating_key_by_header_or_token(alpha: Api, name: str) -> None:
    alpha.append(name, 1)
    url = alpha.watch({name: {}})
    with alpha.stream(url) as stream:
        stream.until_seq(name, 1)
    with Api(alpha.port).stream(f"{url}?token=alpha") as stream:
        stream.until_seq(name, 1)


def test_no_key_a_wrong_key_another_key(alpha: Api, name: str) -> None:
    alpha.append(name, 1)
    url = alpha.watch({name: {}})
    assert refused(Api(alpha.port), url) == (401, "unauthorized")
    assert refused(Api(alpha.port, "nobody"), url) == (401, "unauthorized")
    assert refused(Api(alpha.port), f"{url}?token=nobody") == (401, "unauthorized")
    assert refused(Api(alpha.port, "delta"), url) == (403, "forbidden")
    assert refused(Api(alpha.port), f"{url}?token=delta") == (403, "forbidden")


def test_scope_and_prefixes_bind_every_topic(alpha: Api) -> None:
    inside, outside = new_name("b"), new_name("a")
    alpha.append(inside, 1)
    alpha.append(outside, 1)
    beta = Api(alpha.port, "beta")
    with beta.stream(beta.watch({inside: {}})) as stream:
        stream.until_seq(inside, 1)
    for topics in ({outside: {}}, {inside: {}, outside: {}}, {new_name("a"): {}}):
        answer = beta.call("POST", "/v0/watch", {"topics": topics})
        assert (answer.status, answer.body["error"]["code"]) == (403, "forbidden")
    assert Api(alpha.port, "gamma").call("POST", "/v0/watch", {"topics": {inside: {}}}).status == 403
    assert Api(alpha.port).call("POST", "/v0/watch", {"topics": {inside: {}}}).status == 401


def test_the_plain_stream_asks_for_a_key_too(alpha: Api) -> None:
    inside, outside = new_name("b"), new_name("a")
    alpha.append(inside, 1)
    alpha.append(outside, 1)
    beta = Api(alpha.port, "beta")
    beta.stream(f"/v0/topics/{inside}/events").close()
    Api(alpha.port).stream(f"/v0/topics/{inside}/events?token=beta").close()
    assert refused(beta, f"/v0/topics/{outside}/events") == (403, "forbidden")
    assert refused(Api(alpha.port, "gamma"), f"/v0/topics/{inside}/events") == (403, "forbidden")
    assert refused(Api(alpha.port), f"/v0/topics/{inside}/events") == (401, "unauthorized")


def test_a_stamp_shows_no_name_outside_the_prefixes(alpha: Api, keyed: Instance) -> None:
    """Streams, and the event loop's live: who may see every name sees all of them, on the same topic at the same time."""
    home, dest, router = new_name("a"), new_name("b"), new_name("a-router")
    beta = Api(keyed.port, "beta")
    route = {"source": home, "dest": dest, "guarantee": "exactly_once", "from": "earliest"}
    alpha.done("PUT", f"/v0/routers/{router}", route)
    for api, names in ((beta, ("*", "*", "*")), (alpha, (router, home, router)), (beta, ("*", "*", "*"))):
        with api.stream(api.watch({dest: {}})) as stream, api.stream(f"/v0/topics/{dest}/events") as plain:
            last = alpha.append(home, {"data": {"_topics_router": home}, "meta": {"k": home}})
            api.done("POST", f"/v0/topics/{dest}/diff", {})  # a reader forwards what the worker has not yet
            shown = [
                next(r for r in stream.until_seq(dest, last)[-1].data["records"] if r["$seq"] == last),
                plain.until_event("message")[-1].data,
                api.done("POST", f"/v0/topics/{dest}/diff", {"from_seq": last - 1})["records"][0],
                api.done("GET", f"/v0/topics/{dest}/records/{last}"),
            ]
        for record in shown:
            stamp = record["meta"].pop("_topics_router")
            assert (stamp["router"], stamp["source"], stamp["key"].partition(":")[0]) == names
            assert (record["data"], record["meta"]) == ({"_topics_router": home}, {"k": home})


def test_a_rotated_key_keeps_its_streams_until_its_old_secret_ends(alpha: Api, keyed: Instance, name: str) -> None:
    alpha.append(name, 1)
    with keyed.connect() as database:
        database.execute(
            "INSERT INTO topics_apikey (name, secret_sha256, read, write, delete_scope, admin, prefixes, created_ts)"
            " VALUES (%s, sha256('old'), true, false, false, false, '', 0)",
            [name],
        )
        old, new = Api(alpha.port, "old"), Api(alpha.port, "new")
        url = until(lambda: old.call("POST", "/v0/watch", {"topics": {name: {}}}).body.get("stream_url"), "a session")
        with opened(old, url) as stream:
            stream.until_event("caught-up")
            database.execute(
                "UPDATE topics_apikey SET secret_sha256 = sha256('new'), previous_sha256 = sha256('old'),"
                " previous_until_ts = extract(epoch FROM now()) * 1000 + 600000 WHERE name = %s",
                [name],
            )
            # A session belongs to the key, whichever of its secrets is shown.
            with opened(new, url) as other:
                alpha.append(name, 2)
                stream.until_seq(name, 2)
                other.until_seq(name, 2)
                database.execute("UPDATE topics_apikey SET previous_until_ts = 1 WHERE name = %s", [name])
                error = stream.rest()[-1]
                assert (error.name, error.data["code"]) == ("error", "unauthorized")
                alpha.append(name, 3)
                other.until_seq(name, 3)
        until(lambda: old.call("GET", f"/v0/topics/{name}").status == 401, "the old secret to end")
        database.execute("UPDATE topics_apikey SET expires_ts = 1 WHERE name = %s", [name])
        until(lambda: new.call("GET", f"/v0/topics/{name}").status == 401, "the key to expire")


def test_a_revoked_key_ends_its_streams(alpha: Api, keyed: Instance, name: str) -> None:
    alpha.append(name, 1)
    with keyed.connect() as database:
        database.execute(
            "INSERT INTO topics_apikey (name, secret_sha256, read, write, delete_scope, admin, prefixes, created_ts)"
            " VALUES (%s, sha256('omega'), true, false, false, false, '', 0)",
            [name],
        )
        omega = Api(alpha.port, "omega")
        # Each process knows a key within a second.
        url = until(lambda: omega.call("POST", "/v0/watch", {"topics": {name: {}}}).body.get("stream_url"), "a session")
        with opened(omega, url) as stream, opened(omega, f"/v0/topics/{name}/events") as plain:
            stream.until_event("caught-up")
            database.execute("UPDATE topics_apikey SET revoked_ts = 1 WHERE name = %s", [name])
            error = stream.rest()[-1]
            assert (error.name, error.data["code"]) == ("error", "unauthorized")
            error = plain.rest()[-1]
            assert (error.name, error.data["code"]) == ("error", "unauthorized")
        until(lambda: omega.call("GET", f"/v0/topics/{name}").status == 401, "the key to be known no more")


def test_one_client_cannot_use_up_all_sessions(instances) -> None:
    """The cap of a key leaves the other keys theirs; sessions without a live stream make room (test_expiry.py)."""
    keys = "one:read+write,other:read"
    instance: Instance = instances(TOPICS_API_KEYS=keys, TOPICS_MAX_WATCH_SESSIONS_PER_KEY="3")
    one, other, name = Api(instance.port, "one"), Api(instance.port, "other"), new_name()
    one.append(name, 1)
    with ExitStack() as streams:
        for _ in range(3):
            streams.enter_context(one.stream(one.watch({name: {}}))).until_event("caught-up")
        answer = one.call("POST", "/v0/watch", {"topics": {name: {}}})
        assert (answer.status, answer.body["error"]["code"]) == (429, "throttled")
        assert answer.body["error"]["detail"] == {"limit": "watch_sessions_per_key", "max": 3}
        assert int(answer.headers["retry-after"]) == 1
        with other.stream(other.watch({name: {}})) as stream:
            stream.until_event("caught-up")
    for _ in range(10):  # pages that came and went
        until(lambda: one.call("POST", "/v0/watch", {"topics": {name: {}}}).status == 200, "room for a session")
    with other.stream(other.watch({name: {}})) as stream:
        stream.until_event("caught-up")


def test_without_keys_an_address_counts_for_itself(instances) -> None:
    """Its sessions and its streams. A session may be followed from another address."""
    caps = {"TOPICS_MAX_WATCH_SESSIONS_PER_KEY": "1", "TOPICS_MAX_STREAMS_PER_KEY": "1"}
    instance: Instance = instances(**caps)
    one, other = (Api(instance.port, host=f"127.0.0.{n}") for n in (2, 3))
    name = new_name()
    one.append(name, 1)
    url = one.watch({name: {}})
    with one.stream(url) as stream:
        stream.until_event("caught-up")
        refused = one.call("POST", "/v0/watch", {"topics": {name: {}}})
        assert (refused.status, refused.body["error"]["detail"]["limit"]) == (429, "watch_sessions_per_key")
        with pytest.raises(Refused) as caught:
            one.stream(url)
        assert (caught.value.status, caught.value.detail["limit"]) == (429, "streams_per_key")
        other.watch({name: {}})
        with other.stream(url) as followed:
            followed.until_event("caught-up")


def test_behind_a_proxy_the_address_is_the_one_that_it_appended(instances) -> None:
    capped = {"TOPICS_MAX_STREAMS_PER_KEY": "1", "TOPICS_TLS_PROXY": "1", "ALLOWED_HOSTS": "127.0.0.1"}
    instance: Instance = instances(**capped)
    api, name = Api(instance.port), new_name()
    api.append(name, 1)

    def events(chain: str) -> Stream:
        return api.stream(f"/v0/topics/{name}/events", **{"X-Forwarded-Proto": "https", "X-Forwarded-For": chain})

    with events("192.0.2.1, 198.51.100.7"):
        with pytest.raises(Refused) as caught:
            events("192.0.2.2, 198.51.100.7")
        assert (caught.value.status, caught.value.detail["limit"]) == (429, "streams_per_key")
        events("198.51.100.7, 198.51.100.8").close()


@pytest.mark.parametrize(
    ("peer", "known"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("nonsense", ""),
    ],
)
def test_of_ipv6_the_network_counts(peer: str, known: str) -> None:
    assert client.address(peer, {b"x-forwarded-for": b"198.51.100.7"}) == known


def opened(api: Api, url: str) -> Stream:
    def stream() -> Stream | None:
        try:
            return api.stream(url)
        except Refused as refused:
            if refused.status not in (401, 429):
                raise
            return None

    return until(stream, f"{url} to open")


def test_caps(instances) -> None:
    capped = {"TOPICS_MAX_WATCH_SESSIONS": "3", "TOPICS_MAX_STREAMS": "2", "TOPICS_MAX_STREAMS_PER_KEY": "2"}
    instance: Instance = instances(WEB_WORKERS="2", **capped)
    api, name = Api(instance.port), new_name()
    api.append(name, 1)
    urls = [api.watch({name: {}}) for _ in range(3)]
    for url in urls:
        opened(api, url).close()
    with opened(api, urls[0]), opened(api, f"/v0/topics/{name}/events"):
        for url in (*urls, f"/v0/topics/{name}/events") * 4:  # whichever process it reaches
            with pytest.raises(Refused) as caught:
                api.stream(url)
            assert (caught.value.status, caught.value.code) == (429, "throttled")
            assert caught.value.detail == {"limit": "streams", "max": 2}

    opened(api, urls[1]).close()  # once the closed ones are counted no more


def test_streams_of_a_process_that_died_ahead_of_time_count_no_longer(instances) -> None:
    """Its clock was an hour ahead: what it wrote down would be fresh until that hour is over."""
    instance: Instance = instances(TOPICS_MAX_STREAMS="2", TOPICS_MAX_STREAMS_PER_KEY="2")
    api, name = Api(instance.port), new_name()
    api.append(name, 1)
    with instance.connect() as database:
        database.execute("INSERT INTO topics_streamcount VALUES ('dead', '', 2, %s)", [now_ms() + 3_600_000])
    opened(api, f"/v0/topics/{name}/events").close()


@pytest.mark.django_db
def test_streams_that_end_while_their_count_is_written_do_not_count_longer() -> None:
    registry = Registry(cast("Hub", SimpleNamespace(chores=[])))
    registry.own[OPEN.holder] = 2

    def exchange(ending: int) -> Script[None]:
        """So many streams end while the counts are written."""
        steps = registry.exchange()
        answer = yield next(steps)
        for _ in range(ending):
            registry.exit(OPEN)
        with suppress(StopIteration):
            while True:
                answer = yield steps.send(answer)

    def counts() -> list[int]:
        return list(StreamCount.objects.filter(process=registry.process).values_list("count", flat=True))

    for ending, written, own in ((0, [2], [2]), (2, [2], [0]), (0, [0], [])):
        run(exchange(ending))
        assert (counts(), list(registry.own.values())) == (written, own)


@pytest.mark.parametrize("path", ["topics/x/events", "topics/x/work", "topics/x/groups/g/stream", "watch/w", "ws"])
def test_the_paths_of_streams_allow_get_alone(server: Instance, path: str) -> None:
    for method, status in (("OPTIONS", 204), ("HEAD", 405), ("POST", 405)):
        connection = HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
        with closing(connection):
            connection.request(method, f"/v0/{path}")
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("allow")) == (status, "GET, OPTIONS"), method
