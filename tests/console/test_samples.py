"""History: one sampler per minute, rows only for changed objects, fewer with age, bounded; and reads of it."""

import re
import threading

import pytest
from django.db import connection

from base.clock import now_ms
from console.history import charts, samples, series
from console.history.samples import DAY_MS, HOUR_MS, MINUTE_MS
from console.models import Sample
from routers.routers import RouterConfig
from tests.admin.pages import put
from tests.scripts import move, note, put_router
from topics.models import Cursor

NOON = 1_800_000_000_000 // DAY_MS * DAY_MS + 12 * HOUR_MS


def rows(kind: str, object_id: int) -> list[tuple[int, int]]:
    """Minute after NOON and head, in order."""
    found = Sample.objects.filter(kind=kind, object_id=object_id).order_by("ts").values_list("ts", "head_seq")
    return [((ts - NOON) // MINUTE_MS, head) for ts, head in found]


def test_what_did_not_change_takes_no_row(db: None) -> None:
    topic = put("a", "1", "2")
    assert samples.sample(NOON)
    assert samples.sample(NOON + MINUTE_MS)
    put("a", "3")
    assert samples.sample(NOON + 2 * MINUTE_MS + 30_000)
    assert rows("topic", topic.pk) == [(0, 2), (2, 3)]
    assert [minute for minute, _ in rows("all", 0)] == [0, 1, 2]


def test_a_router_that_lags_is_sampled_with_the_age_of_what_waits(db: None) -> None:
    put("a", "1", "2", "3")
    router = put_router("a->b", RouterConfig(source="a", dest="b", start="earliest", paused=True), now_ms()).router
    assert samples.sample(now_ms() + HOUR_MS)
    row = Sample.objects.get(kind="router", object_id=router.pk)
    assert row.lag == 3
    assert row.oldest_ms >= HOUR_MS


def test_what_moved_while_nobody_sampled_has_its_lag(db: None) -> None:
    topic = put("a", "1", "2", "3")
    config = RouterConfig(source="a", dest="b", start="earliest")
    router = put_router("a->b", config, now_ms()).router
    move("a", "reader", 0, None, NOON)

    def lags() -> list[int]:
        latest = Sample.objects.order_by("-ts")
        return [latest.filter(kind=k, object_id=id)[0].lag for k, id in (("topic", topic.pk), ("router", router.pk))]

    assert samples.sample(NOON)
    assert lags() == [3, 3]
    Cursor.objects.filter(topic_id=topic.pk).update(seq=3, updated_ts=NOON + MINUTE_MS)
    assert samples.sample(NOON + 10 * MINUTE_MS)
    assert lags() == [0, 0]


def test_a_missed_hour_is_made_up_for_by_its_next_samples(db: None) -> None:
    """A deleted reader moves no longer, so only samples of all topics notice that it is gone."""
    topic = put("a", "1", "2", "3")
    move("a", "reader", 0, None, NOON)
    samples.sample(NOON)
    Cursor.objects.filter(name="reader").delete()
    samples.sample(NOON + 62 * MINUTE_MS)
    assert Sample.objects.filter(kind="topic", object_id=topic.pk).order_by("-ts")[0].lag == 0


@pytest.mark.django_db(transaction=True)
def test_of_samplers_that_run_at_once_one_writes() -> None:
    topic = put("a", "1")
    wrote: list[bool] = []

    def work() -> None:
        try:
            wrote.append(samples.sample(NOON))
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wrote) == [False, False, False, True]
    assert rows("topic", topic.pk) == [(0, 1)]


def fill(minutes: range) -> None:
    Sample.objects.bulk_create(
        Sample(kind="topic", object_id=7, ts=NOON + minute * MINUTE_MS, head_seq=minute) for minute in minutes
    )


def test_of_an_hour_that_is_old_the_last_row_stays(db: None, settings) -> None:
    settings.TOPICS_HISTORY_MINUTE_DAYS = 1
    fill(range(150))
    samples.thin(NOON + DAY_MS + 2 * HOUR_MS)
    assert [minute for minute, _ in rows("topic", 7)] == [59, 119, *range(120, 150)]
    samples.thin(NOON + DAY_MS + 5 * HOUR_MS)
    assert [minute for minute, _ in rows("topic", 7)] == [59, 119, 149]


def test_what_is_older_than_the_hours_goes(db: None, settings) -> None:
    settings.TOPICS_HISTORY_MINUTE_DAYS, settings.TOPICS_HISTORY_HOUR_DAYS = 1, 2
    fill(range(150))
    samples.thin(NOON + 2 * DAY_MS + 90 * MINUTE_MS)
    assert [minute for minute, _ in rows("topic", 7)] == [119, 149]


def test_there_are_never_more_than_allowed(db: None, settings) -> None:
    settings.TOPICS_HISTORY_MAX_SAMPLES = 40
    fill(range(100))
    samples.thin(NOON + 2 * HOUR_MS)
    assert [minute for minute, _ in rows("topic", 7)] == list(range(60, 100))


def test_a_series_holds_a_value_until_the_next_and_knows_what_nobody_sampled(db: None) -> None:
    now = NOON + 10 * MINUTE_MS
    for minute in (0, 1, 2, 3, 4, 8, 9, 10):  # nobody sampled from the fifth to the seventh
        Sample.objects.create(kind="all", object_id=0, ts=NOON + minute * MINUTE_MS, head_seq=0)
    for minute, head in ((0, 100), (4, 220), (9, 340)):
        Sample.objects.create(kind="topic", object_id=7, ts=NOON + minute * MINUTE_MS, head_seq=head)
    found = series.read("topic", [7, 8], series.window("3h", now))
    heads = [None if point is None else point.head_seq for point in found[7].points][-6:]
    assert heads == [100, 100, 220, None, 220, 340]
    assert found[7].rates("head_seq")[-6:] == [None, 0.0, 1.0, None, None, 1.0]
    assert found[8].points == [None] * len(found[8].times)


def test_what_was_before_the_range_holds_in_it(db: None) -> None:
    Sample.objects.create(kind="topic", object_id=7, ts=NOON - 30 * DAY_MS, head_seq=5)
    Sample.objects.create(kind="all", object_id=0, ts=NOON, head_seq=0)
    assert series.read("topic", [7], series.window("3h", NOON))[7].points[-1].head_seq == 5


def test_an_earlier_range_stands_beside_a_range(db: None) -> None:
    for minute in range(-60, 1):
        Sample.objects.create(kind="all", object_id=0, ts=NOON + minute * MINUTE_MS, head_seq=0)
    for minute, head in ((-62, 0), (-61, 60), (-60, 180), (0, 300)):
        Sample.objects.create(kind="topic", object_id=7, ts=NOON + minute * MINUTE_MS, head_seq=head)
    shown = series.window(series.chosen("15m@1h"), NOON)
    (line,) = series.beside("topic", 7, shown)(lambda past: past.values("head_seq"))
    assert (line.name, line.values[-1]) == ("1h ago", 180)
    assert series.beside("topic", 7, series.window("15m", NOON))(lambda past: past.values("head_seq")) == []


@pytest.mark.parametrize("length", ["15m", "3h"])
def test_a_range_of_a_week_ago_has_the_rates_and_lags_of_its_hours(db: None, length: str) -> None:
    """Its minutes became hours. At an hour without a sample it has a gap."""
    week_ago = NOON - 7 * DAY_MS
    for kind, id, per_minute, lag in (("all", 0, 0, 0), ("topic", 7, 60, 5)):
        minutes = [minute for minute in range(-480, 180) if not -180 <= minute < -120]
        Sample.objects.bulk_create(
            Sample(kind=kind, object_id=id, ts=week_ago + n * MINUTE_MS, head_seq=10**6 + n * per_minute, lag=lag)
            for n in minutes
        )
    samples.thin(NOON)

    def beside(now: int) -> tuple[list[float | None], list[float | None]]:
        line = series.beside("topic", 7, series.window(f"{length}@1w", now))
        (rates,), (lags,) = line(lambda past: past.rates("head_seq")), line(lambda past: past.values("lag"))
        return list(rates.values), list(lags.values)

    steps = len(series.window(length, NOON).times) - 1
    assert beside(NOON - 4 * HOUR_MS) == ([None, *[1.0] * steps], [5.0] * (steps + 1))
    for values in beside(NOON):
        assert values[-1] is not None
    assert None in beside(NOON - 2 * HOUR_MS)[1]


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [("24h", "24h"), ("24h@1w", "24h@1w"), ("1s@1w", "3h@1w"), ("24h@2y", "24h"), ("", "3h"), ("@1d", "3h@1d")],
)
def test_what_a_page_may_ask_for(asked: str, chosen: str) -> None:
    assert series.chosen(asked) == chosen


def test_changes_of_an_object_are_marks_in_its_chart(db: None) -> None:
    put("a", "1")
    note("change", "topic", "a", {"ttl_ms": 0}, {"ttl_ms": 9})
    note("change", "router", "a")
    now = now_ms()
    (mark,) = series.changes("topic", "a", series.window("15m", now + 60_000))
    assert mark.words.startswith("change by ")
    times = [mark.ts - 60_000, mark.ts - 1_000, mark.ts + 59_000]
    svg = str(charts.chart("Rate", times, [charts.ChartLine("in", "one", [0, 3, 7])], marks=[mark]))
    told = re.findall("<title>([^<]*)</title>", svg)
    assert [mark.words in each for each in told] == [False, True, False]
    assert svg.count('class="mark"') == 1
    assert '<span class="most">7</span><span class="half">3.5</span>' in svg
