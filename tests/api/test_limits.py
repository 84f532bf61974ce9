"""Resource caps: 429 with Retry-After, the cap's name and its value (docs/wire.md)."""

import threading
from typing import Any

import pytest

from base.errors import Throttled
from tests.api.clients import ApiClient, HttpClient
from tests.deadlines import DEADLINE
from tests.instances import until
from topics import limits as totals
from topics.read.totals import BYTES
from wire import limits
from wire.access.keys import OPEN

pytestmark = pytest.mark.deep


def test_too_many_requests_of_one_key_at_once(instances) -> None:
    server = instances(TOPICS_MAX_IN_FLIGHT_PER_KEY="2", WEB_WORKERS="1", TOPICS_API_KEYS="a:read+admin,b:read+write")
    lane = HttpClient(server.port)
    lane.put("/v0/topics/t", authorization="Bearer a")
    answers: list[Any] = []

    def wait() -> None:
        """Again where the look below was in the way."""
        while (reply := lane.post("/v0/topics/t/diff", {"wait_ms": 10_000}, authorization="Bearer a")).status == 429:
            pass
        answers.append(reply)

    waiting = [threading.Thread(target=wait) for _ in range(2)]
    for thread in waiting:
        thread.start()
    refused = until(
        lambda: (reply := lane.get("/v0/topics", authorization="Bearer a")).status == 429 and reply, "both to wait"
    )
    assert refused.code == "throttled"
    assert refused.detail == {"limit": "in_flight", "max": 2}
    assert refused.headers["retry-after"] == "1"
    assert lane.get("/v0/topics", authorization="Bearer b").status == 200  # another key has its own
    lane.post("/v0/topics/t", {"records": [{"data": 1}]}, authorization="Bearer b")  # what they wait for
    for thread in waiting:
        thread.join(DEADLINE)
    assert [reply.status for reply in answers] == [200, 200]
    assert lane.get("/v0/topics", authorization="Bearer a").status == 200


def test_a_request_that_fails_no_longer_counts() -> None:
    with pytest.raises(ValueError, match="x"), limits.under_way(OPEN.holder):
        raise ValueError("x")
    assert OPEN.holder not in limits.in_flight


def test_zero_is_no_cap() -> None:
    limits.check("in_flight", 0, 10**9)
    with pytest.raises(Throttled):
        limits.check("in_flight", 1, 1)


def test_the_bytes_of_all_topics_together(live: ApiClient, name: str, settings, monkeypatch, request) -> None:
    if isinstance(live, HttpClient):
        live = HttpClient(request.getfixturevalue("instances")(TOPICS_MAX_TOTAL_BYTES="1000").port)
    else:
        monkeypatch.setattr(totals, "MOST_TOTAL_BYTES", 1000)
        monkeypatch.setattr(totals, "_total", [0.0, 0])
    assert live.append(name, "x" * 900).status == 201

    def refused() -> Any:
        return (reply := live.append(name, "x" * 200)).status == 429 and reply

    throttled = until(refused, "the sum to be looked at again")
    assert throttled.detail == {"limit": "total_bytes", "max": 1000}
    live.post(f"/v0/topics/{name}/delete", {"before_seq": 1000})
    until(lambda: live.append(name, "x" * 200).status == 200, "room to be seen")


def test_one_append_sums_up_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go by the sum before, but at the start, where there is none."""
    monkeypatch.setattr(totals, "MOST_TOTAL_BYTES", 1000)
    monkeypatch.setattr(totals, "_total", [0.0, 0])
    summing = [totals.check_total_bytes(200) for _ in range(2)]
    assert [next(each).sql for each in summing] == [BYTES] * 2
    for each in summing:
        with pytest.raises(StopIteration):
            each.send([(700,)])
    totals._total[0] = 0.1  # its second is long over
    renewing = totals.check_total_bytes(200)
    assert next(renewing).sql == BYTES
    assert list(totals.check_total_bytes(200)) == []
    with pytest.raises(Throttled):
        renewing.send([(900,)])
    with pytest.raises(Throttled):
        list(totals.check_total_bytes(200))
