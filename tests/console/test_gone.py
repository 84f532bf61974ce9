"""Samples of topics, routers and webhooks that no longer exist are deleted, and no others."""

from __future__ import annotations

import pytest

from base.clock import now_ms
from console.history import gone, samples
from console.history.samples import DAY_MS, HOUR_MS, MINUTE_MS
from console.models import Sample
from routers.routers import RouterConfig
from tests.admin.pages import put
from tests.scripts import delete_topic, put_router

NOON = 1_800_000_000_000 // DAY_MS * DAY_MS + 12 * HOUR_MS


def left() -> set[tuple[str, int]]:
    return set(Sample.objects.exclude(kind="all").values_list("kind", "object_id"))


def test_a_deleted_topic_leaves_no_samples(db: None) -> None:
    kept = put("kept", "1").pk
    topics = [put(f"gone-{number}", "1").pk for number in range(30)]
    for minute in range(3):
        assert samples.sample(NOON + minute * MINUTE_MS)
        put("gone-0", str(minute))
    assert left() == {("topic", id) for id in (kept, *topics)}
    for number in range(30):
        delete_topic(f"gone-{number}", False, now_ms())
    before = Sample.objects.filter(kind="all").count()
    assert gone.GoneObjects().drop() == 30
    assert left() == {("topic", kept)}
    assert Sample.objects.filter(kind="all").count() == before


def test_routers_and_webhooks_alike(db: None) -> None:
    """Each kind has ids of its own."""
    put("a", "1")
    router = put_router("a->b", RouterConfig(source="a", dest="b", start="earliest", paused=True), now_ms()).router
    beyond = router.pk + 1_000_000
    for kind, id in (("router", router.pk), ("router", beyond), ("hook", beyond)):
        Sample.objects.create(kind=kind, object_id=id, ts=NOON, head_seq=0)
    assert gone.GoneObjects().drop() == 2
    assert left() == {("router", router.pk)}


def test_each_look_continues_where_the_last_one_ended(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gone, "LOOKED", 2)
    monkeypatch.setattr(gone, "STEP", 2)
    there = [put(f"there-{number}", "1").pk for number in range(5)]
    beyond = max(there) + 1_000_000
    Sample.objects.bulk_create(
        Sample(kind="topic", object_id=id, ts=NOON + minute * MINUTE_MS, head_seq=0)
        for id in (*there, beyond)
        for minute in range(5)
    )
    objects = gone.GoneObjects()
    assert [objects.drop() for _ in range(3)] == [0, 0, 1]
    assert left() == {("topic", id) for id in there}
    assert Sample.objects.filter(kind="topic").count() == 25
    assert [objects.drop() for _ in range(3)] == [0, 0, 0]
