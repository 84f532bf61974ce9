"""The metrics and the console's page of a group."""

from collections.abc import Callable

import pytest

from tests.groups.conftest import Join
from tests.instances import Instance, until
from tests.watch.wire import Api

pytestmark = pytest.mark.deep


@pytest.fixture
def api(instances: Callable[..., Instance]) -> Api:
    """An instance without other groups, because a scrape shows only the 1,000 largest lags."""
    return Api(instances().port)


def samples(api: Api, name: str, topic: str) -> dict[tuple[str, str | None], float]:
    found = api.call("GET", "/v0/metrics", Accept="application/json").body["metrics"][name]["samples"]
    return {
        (each["labels"]["group"], each["labels"].get("share")): each["value"]
        for each in found
        if each["labels"]["topic"] == topic
    }


def test_members_and_lags_are_metrics(api: Api, join: Join, topic: str) -> None:
    member = join(topic, member="one", partitions=2)
    member.next("assigned")
    assert samples(api, "topics_group_members", topic) == {("billing", None): 1}
    api.append(topic, {"data": 1, "tag": "a"}, {"data": 2, "tag": "b"}, {"data": 3, "tag": "c"})
    events = member.until_seqs(1, 2, 3)
    assert max(samples(api, "topics_group_lag_records", topic).values()) == 3
    assert max(samples(api, "topics_group_lag_seconds", topic).values()) > 0
    assert member.commit(*events).status == 200
    until(
        lambda: samples(api, "topics_group_lag_records", topic) == {("billing", "0"): 0, ("billing", "1"): 0},
        "the shares to reach the head",
    )
    assert set(samples(api, "topics_group_lag_seconds", topic).values()) == {0}
