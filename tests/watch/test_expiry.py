"""Sessions without a stream: refused from the moment they expire, swept away by a task that beat starts."""

import pytest
import redis
from celery import Celery

from base.clock import now_ms
from base.errors import Throttled
from tests.instances import Instance, until
from tests.scripts import create_session, put_topic, sweep_sessions
from tests.watch.wire import Api, Refused, new_name, still_open, wid
from topics.config import Config
from topics.models import WatchSession
from watch import sessions
from watch.sessions import FIRST_TTL_MS, REFRESH_MS, Start, Watch
from watch.tasks import sweep_watch_sessions
from wire.access.keys import OPEN, open_to

pytestmark = pytest.mark.deep


TTL_MS = 300_000


def open_session(now: int, topic: str = "t") -> str:
    """Its wid."""
    return create_session(Watch({topic: Start()}), OPEN, False, now)[0]


def left() -> set[str]:
    return set(WatchSession.objects.values_list("wid", flat=True))


def refused(api: Api, url: str) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        api.stream(url)
    return caught.value.status, caught.value.code


def test_beat_has_the_worker_sweep(settings, instances) -> None:
    assert sweep_watch_sessions.name in {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    instance: Instance = instances(TOPICS_WATCH_SESSION_TTL_MS="1500", TOPICS_PROCESSES="worker")
    api, name = Api(instance.port), new_name()
    api.append(name, 1)
    url, kept = api.watch({name: {}}), api.watch({name: {}})
    assert api.done("POST", "/v0/watch", {"topics": {name: {}}})["session_ttl_ms"] == 1500

    def swept() -> set[str]:
        """What is left, a moment after the worker was asked: beat itself does so twice a minute, and the worker wants no more."""
        with redis.Redis.from_url(instance.servers.redis_url) as client:
            client.delete(f"{instance.redis_prefix}ran:{sweep_watch_sessions.name}")
        with Celery(broker=instance.servers.redis_url, set_as_current=False) as app:
            app.conf.broker_transport_options = {"global_keyprefix": instance.redis_prefix}
            app.send_task(sweep_watch_sessions.name, queue=settings.CELERY_TASK_DEFAULT_QUEUE)
        with instance.connect() as database:
            return {f"/v0/watch/{wid}" for (wid,) in database.execute("SELECT wid FROM topics_watchsession")}

    with api.stream(kept) as stream:
        until(lambda: swept() == {kept}, "the sessions without a stream to go", tick=0.5)
        assert refused(api, url) == (404, "not_found")
        api.append(name, 2)
        stream.until_seq(name, 2)


def test_an_expired_session_that_is_not_swept_yet(server: Instance, api: Api, name: str) -> None:
    api.append(name, 1)
    url = api.watch({name: {}})
    with server.connect() as database:
        age = "UPDATE topics_watchsession SET seen_ts = seen_ts - %s WHERE wid = %s"
        database.execute(age, [FIRST_TTL_MS // 2, wid(url)])
        api.stream(url).close()  # which makes it young again, and older than a session without a stream gets
        until(lambda: not still_open(database, url), "its end to be written down")
        database.execute(age, [TTL_MS // 2, wid(url)])
        api.stream(url).close()
        until(lambda: not still_open(database, url), "its end to be written down")
        database.execute(age, [TTL_MS + 1, wid(url)])
    assert refused(api, url) == (404, "not_found")


def test_a_session_that_never_had_a_stream_lives_for_thirty_seconds(server: Instance, api: Api, name: str) -> None:
    api.append(name, 1)
    url = api.watch({name: {}})
    with server.connect() as database:
        age = "UPDATE topics_watchsession SET seen_ts = seen_ts - %s WHERE wid = %s"
        database.execute(age, [FIRST_TTL_MS + 1, wid(url)])
    assert refused(api, url) == (404, "not_found")


@pytest.mark.django_db
def test_the_task_drops_what_is_expired_and_nothing_else() -> None:
    now = now_ms()
    put_topic("t", Config(), now)
    old, young, streaming, broken, unused, fresh = (open_session(now) for _ in range(6))
    for each, seen_ts, is_open, stream in (
        (old, now - TTL_MS - 1, False, 1),
        (young, now - FIRST_TTL_MS - 1, False, 1),
        (streaming, now - TTL_MS - 1, True, 1),  # says so twice a minute
        (broken, now - TTL_MS - REFRESH_MS - 1, True, 1),
        (unused, now - FIRST_TTL_MS - 1, False, 0),
        (fresh, now - FIRST_TTL_MS, False, 0),
    ):
        WatchSession.objects.filter(wid=each).update(seen_ts=seen_ts, open=is_open, stream=stream)
    assert sweep_sessions(now) == 3
    assert left() == {young, streaming, fresh}
    WatchSession.objects.filter(wid__in=[young, fresh]).update(seen_ts=0)
    sweep_watch_sessions()
    assert left() == {streaming}


@pytest.mark.django_db
@pytest.mark.parametrize("cap", ["TOPICS_MAX_WATCH_SESSIONS", "TOPICS_MAX_WATCH_SESSIONS_PER_KEY"])
def test_at_the_cap_the_oldest_session_without_a_live_stream_makes_room(settings, cap: str) -> None:
    setattr(settings, cap, 3)
    now = now_ms()
    put_topic("t", Config(), now)
    live, ended, fresh = (open_session(now + n) for n in range(3))
    WatchSession.objects.filter(wid=live).update(stream=1, open=True)
    WatchSession.objects.filter(wid=ended).update(stream=1)
    newest = open_session(now + 3)
    assert left() == {live, fresh, newest}
    WatchSession.objects.update(stream=1, open=True)
    with pytest.raises(Throttled) as refused:
        open_session(now + 4)
    assert refused.value.retry_after == 1
    assert left() == {live, fresh, newest}
    killed = now - 2 * REFRESH_MS  # the process of the stream would have updated this time
    WatchSession.objects.filter(wid=fresh).update(seen_ts=killed)
    last = open_session(now + 4)
    assert left() == {live, newest, last}


@pytest.mark.django_db
def test_a_large_cap_holds_about_so_many_sessions(settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts at some creations, and then makes room for several."""
    settings.TOPICS_MAX_WATCH_SESSIONS = 3000
    counted = []
    monkeypatch.setattr(sessions, "randrange", lambda stop: counted.append(stop) or len(counted) % stop)
    now = now_ms()
    put_topic("t", Config(), now)
    columns = {"key_id": "k", "options": "{}", "spots": "{}", "seen_ts": now, "created_ts": now}
    WatchSession.objects.bulk_create(WatchSession(wid=f"wid_{n}", **columns) for n in range(3000))
    for _ in range(3):
        open_session(now)
    assert set(counted) == {3, 10}
    assert len(left()) == 3000 + 3 - 63


@pytest.mark.django_db
def test_the_cap_of_a_key_takes_no_session_of_another(settings) -> None:
    settings.TOPICS_MAX_WATCH_SESSIONS_PER_KEY = 1
    now = now_ms()
    put_topic("t", Config(), now)
    wanted = Watch({"t": Start()})
    others, _, ours = (create_session(wanted, open_to(f"192.0.2.{n}"), False, now)[0] for n in (1, 2, 2))
    assert left() == {others, ours}
