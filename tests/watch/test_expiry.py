"""Sessions without a stream: refused from the moment they expire, swept away by a task that beat starts."""

import pytest
from celery import Celery

from base.clock import now_ms
from base.errors import Throttled
from tests.instances import Instance, until
from tests.scripts import create_session, put_topic, sweep_sessions
from tests.watch.wire import Api, Refused, new_name, still_open, wid
from topics.config import Config
from topics.models import WatchSession
from watch.sessions import FIRST_TTL_MS, REFRESH_MS, Start, Watch
from watch.tasks import sweep_watch_sessions
from wire.keys import OPEN, open_to

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
        """What is left, a moment after the worker was asked: beat itself does so twice a minute."""
        with Celery(broker=instance.servers.redis_url, set_as_current=False) as app:
            app.send_task(sweep_watch_sessions.name)
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
def test_at_the_cap_the_oldest_session_that_never_had_a_stream_goes(settings, cap: str) -> None:
    setattr(settings, cap, 3)
    now = now_ms()
    put_topic("t", Config(), now)
    streamed, _, older = (open_session(now + n) for n in range(3))
    WatchSession.objects.filter(wid=streamed).update(stream=1)
    newest = open_session(now + 3)
    assert left() == {streamed, older, newest}
    WatchSession.objects.update(stream=1)
    with pytest.raises(Throttled):
        open_session(now + 4)
    assert left() == {streamed, older, newest}


@pytest.mark.django_db
def test_the_cap_of_a_key_takes_no_session_of_another(settings) -> None:
    settings.TOPICS_MAX_WATCH_SESSIONS_PER_KEY = 1
    now = now_ms()
    put_topic("t", Config(), now)
    wanted = Watch({"t": Start()})
    others, _, ours = (create_session(wanted, open_to(f"192.0.2.{n}"), False, now)[0] for n in (1, 2, 2))
    assert left() == {others, ours}


@pytest.mark.django_db
def test_a_refusal_says_when_the_next_session_expires(settings) -> None:
    settings.TOPICS_MAX_WATCH_SESSIONS = 2
    now = now_ms()
    put_topic("t", Config(), now)
    open_session(now), open_session(now)
    for seen_ts, is_open, seconds in ((now - TTL_MS + 1001, False, 2), (now, True, 330), (now - TTL_MS, False, 1)):
        WatchSession.objects.update(seen_ts=seen_ts, open=is_open, stream=1)
        with pytest.raises(Throttled) as refused:
            open_session(now)
        assert refused.value.retry_after == seconds


@pytest.mark.django_db
def test_expired_sessions_do_not_count_for_the_cap(settings) -> None:
    settings.TOPICS_MAX_WATCH_SESSIONS = 2
    now = now_ms()
    put_topic("t", Config(), now)
    expired, _ = open_session(now), open_session(now)
    WatchSession.objects.update(stream=1)
    with pytest.raises(Throttled):
        open_session(now)
    WatchSession.objects.filter(wid=expired).update(seen_ts=0)
    assert open_session(now) in left()
    assert expired not in left()
    WatchSession.objects.update(stream=1)
    with pytest.raises(Throttled):
        open_session(now)
    settings.TOPICS_MAX_WATCH_SESSIONS = 0
    open_session(now)
