"""/v0/topics/:topic/schedules: jobs that a queue gets later."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from django.db import connection, connections, transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from base.clock import now_ms
from base.errors import InvalidRequest
from queues import schedules
from queues.api.schedules import PutSchedule
from queues.due import append_due, set_back
from queues.schedules import Times, delete_schedule, get_schedule, next_ts, put_schedule
from queues.state import KINDS
from queues.tasks import SetBacks
from store.script import run
from tests.api.clients import ApiClient
from tests.deadlines import DEADLINE
from tests.examples import examples
from tests.instances import until
from tests.queues.test_jobs import claim
from tests.queues.test_redrive import letters
from tests.scripts import delete_topic, put_topic
from topics import limits
from topics.append.records import NewRecord, Rows, columns
from topics.cache import forget_all
from topics.config import Config
from topics.read.totals import BYTES
from topics.state import parse_rows, write_state

NOW = int(datetime(2026, 3, 28, 12, tzinfo=UTC).timestamp() * 1000)  # the day before Europe changes its clocks
MINUTE = 60_000
BERLIN = ZoneInfo("Europe/Berlin")
SECOND_HOUR = datetime(2026, 10, 25, 2, 5, tzinfo=BERLIN, fold=1)  # Europe sets its clocks back, and it is 02:05 again


@pytest.fixture
def queue(api: ApiClient, request: pytest.FixtureRequest) -> str:
    name = f"schedules-{abs(hash(request.node.nodeid)):x}"
    assert api.put(f"/v0/topics/{name}", {"type": "queue"}).status == 201
    return name


def put(api: ApiClient, queue: str, name: str = "s", **body: Any) -> Any:
    return api.put(f"/v0/topics/{queue}/schedules/{name}", {"data": 1, **body})


def test_a_job_comes_at_its_time_and_its_schedule_ends(api: ApiClient, queue: str) -> None:
    due = int(time.time() * 1000) + 1500
    record = {"data": {"n": 1.50}, "tag": "mail", "node": "shop", "meta": {"a": 1}}
    reply = put(api, queue, "reminder-7", not_before=due, **record)
    assert reply.status == 201
    shown = {key: value for key, value in reply.json.items() if key != "performance"}
    assert shown == {
        "topic": queue, "schedule": "reminder-7", "cron": None, "timezone": "UTC", "not_before": due, "next_ts": due, "jobs": 0,
        "last_ts": None, "last_seq": None, "error": None, "created": True, **record,
    }  # fmt: skip
    assert claim(api, queue) == []
    jobs: list[Any] = []
    until(lambda: jobs.extend(claim(api, queue)) or jobs, "the job")
    assert jobs[0]["$ts"] >= due
    assert (jobs[0]["data"], jobs[0]["$tag"], jobs[0]["meta"]) == ({"n": 1.50}, "mail", {"a": 1})
    assert letters(api, queue)[0]["$node"] == "shop"
    assert api.get(f"/v0/topics/{queue}/schedules/reminder-7").code == "not_found"
    assert api.delete(f"/v0/topics/{queue}/schedules/reminder-7").json["deleted"] is False


def test_a_time_that_has_passed_is_now(api: ApiClient, queue: str) -> None:
    before = now_ms()
    assert put(api, queue, not_before=0).json["next_ts"] >= before
    until(lambda: claim(api, queue), "the job")


def test_schedules_are_replaced_listed_and_deleted(api: ApiClient, queue: str) -> None:
    later = 2**42
    for name in "cab":
        assert put(api, queue, name, not_before=later).json["created"] is True
    changed = put(api, queue, "a", cron="0 3 * * *", timezone="Europe/Berlin", data={"x": 1})
    assert (changed.status, changed.json["created"], changed.json["cron"]) == (200, False, "0 3 * * *")
    moment = datetime.fromtimestamp(changed.json["next_ts"] / 1000, BERLIN)
    assert (moment.hour, moment.minute) == (3, 0)
    first = api.get(f"/v0/topics/{queue}/schedules?page_size=2").json
    assert [each["schedule"] for each in first["schedules"]] == ["a", "b"]
    assert "data" not in first["schedules"][0]
    second = api.get(f"/v0/topics/{queue}/schedules?cursor={first['next_cursor']}").json
    assert [each["schedule"] for each in second["schedules"]] == ["c"]
    assert "next_cursor" not in second
    assert api.get(f"/v0/topics/{queue}/schedules/a").json["data"] == {"x": 1}
    assert api.delete(f"/v0/topics/{queue}/schedules/a").json["deleted"] is True
    api.delete(f"/v0/topics/{queue}")
    api.put(f"/v0/topics/{queue}", {"type": "queue"})
    assert api.get(f"/v0/topics/{queue}/schedules").json["schedules"] == []


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "not_before", "not_before and cron are missing"),
        ({"cron": "every day"}, "cron", "expected five fields"),
        ({"cron": "* * * * * *"}, "cron", "expected five fields"),
        ({"cron": "61 * * * *"}, "cron", "expected five fields"),
        ({"cron": "0 0 30 2 *"}, "cron", "Bad day-of-month"),
        ({"cron": "0 " * 200}, "cron", "expected five fields"),
        ({"cron": "0 3 * * *", "timezone": "Mars/Olympus"}, "timezone", "unknown timezone"),
        ({"cron": "0 3 * * *", "timezone": "../../etc/passwd"}, "timezone", "unknown timezone"),
        ({"cron": "0 3 * * *", "timezone": "\0"}, "timezone", "unknown timezone"),
        ({"cron": "0 3 * * *", "timezone": ""}, "timezone", "unknown timezone"),
        ({"not_before": 5, "timezone": "Europe/Berlin"}, "timezone", "timezone is for cron"),
        ({"not_before": -1}, None, "not_before"),
        ({"not_before": 10**15}, None, "not_before"),
        ({"not_before": 5, "tag": "x" * 300}, None, "tag"),
        ({"not_before": 5, "meta": []}, None, "meta"),
        ({"not_before": 5, "records": []}, None, "records"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused(
    api: ApiClient, queue: str, body: dict[str, Any], field: str | None, words: str
) -> None:
    reply = put(api, queue, **body)
    assert (reply.status, reply.code) == (400, "invalid_request"), reply
    assert words in reply.json["error"]["message"]
    assert field is None or reply.detail["field"] == field
    assert api.get(f"/v0/topics/{queue}/schedules").json["schedules"] == []


def test_only_a_queue_has_schedules(api: ApiClient, queue: str) -> None:
    api.append(f"{queue}-log", 1)
    assert put(api, f"{queue}-log", not_before=5).code == "not_a_queue"
    assert put(api, f"{queue}-absent", not_before=5).code == "topic_not_found"
    assert put(api, queue, "bad,name", not_before=5).status == 400
    assert api.get(f"/v0/topics/{queue}-log/schedules").code == "not_a_queue"


def times(cron: str, after: datetime, count: int) -> list[str]:
    found = []
    at = int(after.timestamp() * 1000)
    for _ in range(count):
        at = next_ts(cron, BERLIN, at)
        found.append(f"{datetime.fromtimestamp(at / 1000, BERLIN):%m-%d %H:%M%z}")
    return found


def test_cron_lines_follow_the_clocks_of_their_timezone() -> None:
    day = datetime(2026, 3, 28, 12, tzinfo=BERLIN)
    # The clocks go from 02:00 to 03:00: the job of the hour that is absent comes at 03:00, and each hour has one.
    assert times("30 2 * * *", day, 2) == ["03-29 03:00+0200", "03-30 02:30+0200"]
    assert times("0 * * * *", datetime(2026, 3, 29, 0, 30, tzinfo=BERLIN), 3) == [
        "03-29 01:00+0100",
        "03-29 03:00+0200",
        "03-29 04:00+0200",
    ]
    # The clocks go from 03:00 to 02:00: a job of a fixed time comes once.
    assert times("30 2 * * *", datetime(2026, 10, 24, 12, tzinfo=BERLIN), 2) == ["10-25 02:30+0200", "10-26 02:30+0100"]
    assert times("30 2 * * *", SECOND_HOUR, 1) == ["10-26 02:30+0100"]
    assert times("10,50 2 * * *", SECOND_HOUR, 2) == ["10-26 02:10+0100", "10-26 02:50+0100"]


@pytest.mark.parametrize(
    "name",
    ["Europe/London", "America/New_York", "America/Havana", "America/Santiago", "Africa/Cairo", "Australia/Lord_Howe"],
)
def test_the_next_time_is_later_in_every_hour_that_the_clocks_skip_or_repeat(name: str) -> None:
    zone = ZoneInfo(name)
    hours = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(365 * 24)]
    offsets = [hour.astimezone(zone).utcoffset() for hour in hours]
    changes = [hours[n] for n in range(1, len(hours)) if offsets[n] != offsets[n - 1]]
    assert len(changes) == 2
    for change in changes:
        for minutes in range(-120, 120, 7):
            after = int((change + timedelta(minutes=minutes)).timestamp() * 1000)
            for hour in (0, 1, 2, 23):
                assert next_ts(f"5,35 {hour} * * *", zone, after) > after, (change, minutes, hour)


@settings(max_examples=examples(40))
@given(
    st.tuples(*(st.sampled_from(["*", str(low), f"*/{step}", f"{low}-{high}"]) for low, high, step in (
        (5, 50, 7), (2, 22, 5), (1, 28, 9), (1, 12, 5), (0, 5, 2)
    ))),
    st.integers(0, 2**40),
)  # fmt: skip
def test_the_next_time_is_the_first_minute_that_matches(parts: tuple[str, ...], after: int) -> None:
    """Beside a search through all minutes, in UTC."""
    found = next_ts(" ".join(parts), ZoneInfo("UTC"), after)
    minute = datetime.fromtimestamp(after // MINUTE * MINUTE // 1000, UTC) + timedelta(minutes=1)
    limit = minute + timedelta(days=3)
    while minute < limit and not matches(parts, minute):
        minute += timedelta(minutes=1)
    if minute < limit:
        assert found == int(minute.timestamp() * 1000)
    else:
        assert matches(parts, datetime.fromtimestamp(found / 1000, UTC))
        assert found >= int(limit.timestamp() * 1000)


def matches(parts: tuple[str, ...], at: datetime) -> bool:
    values = (at.minute, at.hour, at.day, at.month, at.isoweekday() % 7)
    minute, hour, day, month, weekday = (
        field_matches(part, value, low) for part, value, low in zip(parts, values, (0, 0, 1, 1, 0), strict=True)
    )
    # As in cron: if both days are restricted, one of them is enough.
    restricted = not parts[2].startswith("*") and not parts[4].startswith("*")
    return minute and hour and month and ((day or weekday) if restricted else (day and weekday))


def field_matches(part: str, value: int, low: int) -> bool:
    if part.startswith("*/"):
        return (value - low) % int(part[2:]) == 0
    first, _, last = part.partition("-")
    return part == "*" or int(first) <= value <= int(last or first)


# -- The appends, with a clock of the test ---------------------------------------------------------------------------


@pytest.fixture
def _empty(transactional_db: None) -> None:
    begin()


def begin(**config: Any) -> None:
    forget_all()
    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE topics_topic, topics_topichead, topics_record, topics_idempotencykey, queues_schedule, queues_done CASCADE"
        )
    put_topic("q", Config(type="queue", **config), NOW)


def one(data: Any = 1, tag: str | None = None) -> Rows:
    return columns([NewRecord(msgspec.Raw(msgspec.json.encode(data)), tag=tag)], None)


def schedule(name: str, due: int | None = None, cron: str | None = None, now: int = NOW, **record: Any) -> Any:
    return run(put_schedule("q", name, Times(due, cron, "UTC"), one(**record), now))


def jobs() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT data FROM topics_record WHERE NOT deleted ORDER BY seq")
        return [data for (data,) in cursor.fetchall()]


@pytest.mark.usefixtures("_empty")
def test_a_cron_line_that_was_missed_gives_one_job() -> None:
    schedule("s", cron="*/10 * * * *")
    assert run(append_due(NOW + 10 * MINUTE - 1)) == 0
    assert run(append_due(NOW + 10 * MINUTE)) == 1
    assert run(append_due(NOW + 10 * MINUTE)) == 0
    found = run(get_schedule("q", "s"))
    assert (found.due_ts, found.jobs, found.last_ts, found.last_seq) == (NOW + 20 * MINUTE, 1, NOW + 10 * MINUTE, 1)
    assert run(append_due(NOW + 95 * MINUTE)) == 1  # the server was down for more than an hour
    assert run(get_schedule("q", "s")).due_ts == NOW + 100 * MINUTE
    assert jobs() == [1, 1]


@pytest.mark.usefixtures("_empty")
def test_a_cron_line_can_begin_later() -> None:
    found, _ = schedule("s", NOW + 25 * MINUTE, "*/10 * * * *")
    assert found.due_ts == NOW + 30 * MINUTE
    found, _ = schedule("s", NOW + 30 * MINUTE, "*/10 * * * *")
    assert found.due_ts == NOW + 30 * MINUTE


@pytest.mark.usefixtures("_empty")
def test_times_that_a_clock_ahead_has_stored_are_set_back() -> None:
    day = 24 * 60 * MINUTE
    schedule("s", cron="*/10 * * * *", now=NOW + 200 * day)
    schedule("later", NOW + 25 * MINUTE, "*/10 * * * *")
    schedule("once", NOW + day)
    assert run(set_back(NOW)) == 1
    assert run(set_back(NOW)) == 0
    assert run(get_schedule("q", "s")).due_ts == NOW + 10 * MINUTE
    assert run(get_schedule("q", "later")).due_ts == NOW + 30 * MINUTE
    assert run(get_schedule("q", "once")).due_ts == NOW + day
    assert run(append_due(NOW + 10 * MINUTE)) == 1


@pytest.mark.usefixtures("_empty")
def test_a_try_that_a_clock_ahead_has_put_off_is_set_back() -> None:
    """A full queue refuses the jobs, by a clock that is ahead. Then it has room again, and the clock is right."""
    begin(cap_records=1, discard="reject")
    schedule("once", NOW)
    schedule("cron", cron="*/10 * * * *")
    schedule("later", NOW + 60 * MINUTE)
    assert run(append_due(NOW)) == 1
    schedule("again", NOW)
    assert run(append_due(NOW + 24 * 60 * MINUTE)) == 0
    put_topic("q", Config(type="queue", cap_records=10), NOW)
    forget_all()
    assert run(append_due(NOW + 10 * MINUTE)) == 0
    assert run(set_back(NOW + 10 * MINUTE)) == 3
    assert run(set_back(NOW + 10 * MINUTE)) == 0
    assert run(append_due(NOW + 10 * MINUTE)) == 2
    assert run(append_due(NOW + 60 * MINUTE)) == 2


@pytest.mark.usefixtures("_empty")
def test_a_web_process_whose_clock_is_ahead_puts_off_no_job() -> None:
    schedule("once", NOW - MINUTE, now=NOW + 60 * MINUTE)
    assert run(append_due(NOW)) == 0
    assert run(set_back(NOW)) == 1
    assert run(append_due(NOW)) == 1


@pytest.mark.guarantee("Q4")
@pytest.mark.usefixtures("_empty")
def test_a_job_of_a_fixed_hour_comes_once_when_the_clocks_go_back() -> None:
    """In the second hour, a PUT, a look for times that are too late, and the job of the first hour each plan the next time."""
    now = int(SECOND_HOUR.timestamp() * 1000)
    tomorrow = int(datetime(2026, 10, 26, 2, 30, tzinfo=BERLIN).timestamp() * 1000)
    for first, planned, expected in ((now, tomorrow, 0), (now - 60 * MINUTE, now - 35 * MINUTE, 1)):
        found, _ = run(put_schedule("q", "s", Times(None, "30 2 * * *", "Europe/Berlin"), one(), first))
        assert found.due_ts == planned
        assert run(append_due(now)) == expected
        assert run(set_back(now)) == 0
        assert run(get_schedule("q", "s")).due_ts == tomorrow
    assert jobs() == [1]


def test_times_are_looked_at_first_and_after_a_step_back_of_the_clock() -> None:
    looks = SetBacks()
    assert [looks.is_due(now) for now in (NOW, NOW, NOW + MINUTE, NOW, NOW)] == [True, False, False, True, False]


@pytest.mark.guarantee("Q4")
@pytest.mark.usefixtures("_empty")
def test_a_put_again_keeps_the_job_that_is_due() -> None:
    """An application puts its schedules at each start, also between the time of a job and the look of a worker process."""
    due = NOW + 10 * MINUTE
    for before in (None, NOW - 1):
        schedule("s", before, "*/10 * * * *")
        found, is_new = schedule("s", before, "*/10 * * * *", now=due + 1, data=2)
        assert (found.due_ts, is_new) == (due, False)
    for cron, before, expected in (
        ("*/20 * * * *", None, NOW + 20 * MINUTE),  # another line
        ("*/20 * * * *", NOW + 50 * MINUTE, NOW + 60 * MINUTE),  # no job before this time
    ):
        assert schedule("s", before, cron, now=due + 1)[0].due_ts == expected
    schedule("once", NOW + MINUTE)
    assert schedule("once", NOW + MINUTE, now=due)[0].due_ts == NOW + MINUTE
    assert run(append_due(due)) == 1


@pytest.mark.guarantee("Q4")
@pytest.mark.usefixtures("_empty")
def test_a_put_again_gives_no_second_job_of_one_time() -> None:
    schedule("s", NOW + MINUTE)
    assert run(append_due(NOW + MINUTE)) == 1
    for _ in range(2):
        again, is_new = schedule("s", NOW + MINUTE, now=NOW + 2 * MINUTE)
        assert (is_new, again.due_ts, again.jobs, again.last_ts, again.last_seq) == (False, None, 1, NOW + MINUTE, 1)
    assert run(append_due(NOW + 2 * MINUTE)) == 0
    later = NOW + 7 * 24 * 60 * MINUTE
    for n, (now, before, record) in enumerate((
        (NOW + 2 * MINUTE, NOW + MINUTE, {"data": 2}),  # another record
        (NOW + 2 * MINUTE, NOW + MINUTE, {}),  # the first record again, after another one
        (NOW + 2 * MINUTE, NOW, {}),  # another time
        (NOW + 2 * MINUTE, None, {}),  # after a delete
        (later + 3 * MINUTE, NOW, {}),  # after 7 days
    )):  # fmt: skip
        if before is None:
            before = NOW
            assert run(delete_schedule("q", "s")) is False
        run(append_due(now))
        assert schedule("s", before, now=now, **record)[1] is True, n
        assert run(append_due(now)) == 1
    assert jobs() == [1, 2, 1, 1, 1, 1]


@pytest.mark.usefixtures("_empty")
def test_a_put_beside_a_worker_gives_one_job() -> None:
    """The PUT waits for the worker process that has begun, and then finds the job that this process appended."""
    schedule("s", NOW)

    def put() -> Any:
        try:
            return schedule("s", NOW)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        assert run(append_due(NOW)) == 1
        putting = pool.submit(put)
        until(waiting_for_head, "the PUT that waits")
    found, is_new = putting.result(DEADLINE)
    assert (is_new, found.due_ts, found.last_seq) == (False, None, 1)
    assert run(append_due(NOW)) == 0


@pytest.mark.usefixtures("_empty")
def test_the_jobs_of_other_queues_do_not_wait_for_a_put_that_forgets_an_old_job() -> None:
    later = NOW + 8 * 24 * 60 * MINUTE
    schedule("s", NOW)
    assert run(append_due(NOW)) == 1
    put_topic("other", Config(type="queue"), NOW)
    run(put_schedule("other", "s", Times(later, None, "UTC"), one(), NOW))

    def work() -> int:
        try:
            return run(append_due(later))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        schedule("s", later + MINUTE, now=later, data=2)
        assert pool.submit(work).result(DEADLINE) == 1


@pytest.mark.usefixtures("_empty")
def test_a_queue_that_an_application_holds_delays_no_other_and_gets_its_jobs_when_it_is_free() -> None:
    schedule("s", NOW)
    put_topic("other", Config(type="queue"), NOW)
    run(put_schedule("other", "s", Times(NOW, None, "UTC"), one(2), NOW))

    def work() -> int:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '2s'")  # as in a worker, and shorter
            return run(append_due(NOW))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM topics_topichead WHERE topic_id = (SELECT id FROM topics_topic WHERE name = 'q') FOR UPDATE"
        )
        assert pool.submit(work).result(DEADLINE) == 1
    assert jobs() == [2]
    assert run(get_schedule("q", "s")).error is None
    assert run(append_due(NOW)) == 1


@pytest.mark.usefixtures("_empty")
def test_a_delete_that_waits_for_a_move_leaves_no_schedule() -> None:
    """The move writes schedules into the sealed queue, and holds its head meanwhile."""
    put_topic("q", Config(sealed=True), NOW)
    kind = KINDS["schedules"]
    fields = {"name": "s", "cron": None, "timezone": "UTC", "due_ts": NOW, "jobs": 0, "last_ts": None, "last_seq": None}
    row = msgspec.Raw(msgspec.json.encode({**fields, "tag": None, "node": None, "data": 1}))

    def work() -> None:
        try:
            assert delete_topic("q", False, NOW).deleted
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            assert run(write_state("q", kind, parse_rows(kind, [row]))) == 1
            deleting = pool.submit(work)
            until(lambda: waiting_for_head("UPDATE topics_topichead%"), "the delete that waits")
        deleting.result(DEADLINE)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM queues_schedule")
        assert cursor.fetchone() == (0,)


def waiting_for_head(query: str = "%topics_topichead%FOR UPDATE%") -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # else the transaction would see the first look again
        cursor.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s", [query])
        return cursor.rowcount > 0


def test_what_a_get_shows_can_be_put_back(api: ApiClient, queue: str) -> None:
    for name, body in {
        "cron": {"cron": "0 3 * * *", "timezone": "Europe/Berlin", "not_before": 2**42, "meta": {"a": 1}, "tag": "t"},
        "once": {"not_before": 2**42 + 1, "node": "n"},
    }.items():
        put(api, queue, name, **body)
        path = f"/v0/topics/{queue}/schedules/{name}"
        shown = api.get(path).json
        given = {field: shown[field] for field in PutSchedule.__struct_fields__ if field in shown}
        assert {**given, **body, "data": 1} == given
        assert api.put(path, given).status == 200
        assert {**api.get(path).json, "performance": 0} == {**shown, "performance": 0}


@pytest.mark.usefixtures("_empty")
def test_a_full_queue_gets_the_jobs_that_fit_and_the_others_later() -> None:
    begin(cap_records=3, discard="reject")
    for n in range(8):
        schedule(f"s{n}", NOW + n, data=n)
    assert run(append_due(NOW + 100)) == 3
    assert jobs() == [0, 1, 2]
    refused = run(get_schedule("q", "s3"))
    assert (refused.due_ts, refused.error) == (NOW + 3, "topic 'q' has no room: 3 of at most 3 records")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics_topic SET cap_records = 0; UPDATE topics_topichead SET version = version + 1")
    assert run(append_due(NOW + MINUTE)) == 0
    assert run(append_due(NOW + MINUTE + 100)) == 5
    assert jobs() == list(range(8))


@pytest.mark.usefixtures("_empty")
def test_the_jobs_of_schedules_count_in_the_cap_on_all_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key with `write` could fill the disk by a schedule."""
    for name in ("a", "b"):
        schedule(name, NOW, data="x" * 8)
    with connection.cursor() as cursor:
        cursor.execute(BYTES)
        ((held,),) = cursor.fetchall()
    monkeypatch.setattr(limits, "MOST_TOTAL_BYTES", held + 15)
    monkeypatch.setattr(limits, "_total", [0.0, 0])
    assert run(append_due(NOW)) == 0
    told = f"the topics hold {held} of at most {held + 15} bytes (TOPICS_MAX_TOTAL_BYTES): delete records"
    assert [run(get_schedule("q", name)).error for name in ("a", "b")] == [told, told]
    monkeypatch.setattr(limits, "MOST_TOTAL_BYTES", held + 20)
    assert run(append_due(NOW + MINUTE)) == 2
    assert jobs() == ["x" * 8] * 2


@pytest.mark.usefixtures("_empty")
def test_a_queue_with_unique_tags_gets_one_job_of_the_schedules_of_a_tag() -> None:
    begin(unique_tags=True)
    for n in range(4):
        schedule(f"s{n}", NOW + n, data=n, tag=["a", "b"][n % 2])
    assert run(append_due(NOW + 100)) == 4
    assert jobs() == [0, 1]


@pytest.mark.usefixtures("_empty")
def test_more_schedules_than_the_cap_are_refused(settings: Any) -> None:
    settings.TOPICS_MAX_SCHEDULES = 2
    schedule("a", NOW)
    schedule("b", NOW)
    schedule("b", NOW + 1)
    with pytest.raises(Exception, match=r"the cap of 2 is reached \(schedules\)"):
        schedule("c", NOW)
    with pytest.raises(InvalidRequest, match="cron"):
        schedule("d", cron="x")
    assert [each.name for each in run(schedules.page_of_schedules("q", "", 9))] == ["a", "b"]


@pytest.mark.guarantee("Q4")
@pytest.mark.usefixtures("_empty")
def test_of_many_workers_at_once_one_appends_each_job() -> None:
    for n in range(60):
        schedule(f"s{n}", NOW, data=n)

    def work(_: int) -> int:
        try:
            return run(append_due(NOW))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, range(12))) == 60
    assert sorted(jobs()) == list(range(60))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc"), st.integers(-5, 40)),
        st.tuples(st.just("cron"), st.sampled_from("abc"), st.sampled_from([1, 5, 10])),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("work"), st.just(""), st.integers(0, 25)),
    ),
    max_size=15,
)


@pytest.mark.guarantee("Q4")
@pytest.mark.django_db(transaction=True)
@settings(max_examples=examples(25))
@given(STEPS)
def test_any_order_of_calls(steps: list[tuple[str, str, int]]) -> None:
    """Beside a model in memory: the next time and the period of each schedule, the times of those that are done, and the jobs."""
    begin()
    model: dict[str, tuple[int, int]] = {}
    planned: dict[str, int] = {}
    done: dict[str, int] = {}
    expected: list[str] = []
    now = NOW
    for what, name, value in steps:
        if what == "put":
            schedule(name, now + value * MINUTE, now=now, data=name)
            if done.get(name) == now + value * MINUTE:
                continue
            at, period = model.get(name, (now, 1))
            if at > now or value > 0 or period:
                at = now + max(0, value) * MINUTE
            model[name], planned[name] = (at, 0), now + value * MINUTE
            done.pop(name, None)
        elif what == "cron":
            schedule(name, cron=f"*/{value} * * * *", now=now, data=name)
            period = value * MINUTE
            if name not in model or model[name][1] != period or model[name][0] > now:
                model[name] = (now // period + 1) * period, period
            done.pop(name, None)
        elif what == "delete":
            assert run(delete_schedule("q", name)) == (model.pop(name, None) is not None)
            done.pop(name, None)
        else:
            now += value * MINUTE
            due = [name for name, (at, _) in model.items() if at <= now]
            assert run(append_due(now)) == len(due)
            expected += due
            for name in due:
                period = model.pop(name)[1]
                if period:
                    model[name] = (now // period + 1) * period, period
                else:
                    done[name] = planned[name]
    assert sorted(jobs()) == sorted(expected)
    assert {each.name: each.due_ts for each in run(schedules.page_of_schedules("q", "", 9))} == {
        name: at for name, (at, _) in model.items()
    }
