"""Of the topics of one stream the more urgent is served first, and none starves."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.watch.wire import Api, new_name
from watch.reads import LONGEST_EVERY, Order

PRIORITIES = st.lists(st.integers(-3, 3), min_size=1, max_size=12)


@given(PRIORITIES, st.integers(1, 60))
def test_whatever_always_has_more_to_read_the_urgent_come_first_and_none_starves(
    priorities: list[int], readings: int
) -> None:
    order: Order[int] = Order(priorities.__getitem__)
    for topic in range(len(priorities)):
        order.add(topic)
    taken: list[int] = []
    for _ in range(readings):
        taken.append(order.take())
        order.add(taken[-1])  # it has a backlog
    urgent = sum(priorities[topic] == max(priorities) for topic in taken)
    assert urgent >= readings - readings // LONGEST_EVERY
    longest = LONGEST_EVERY * len(priorities)
    for topic in range(len(priorities)):
        places = [-1, *(place for place, each in enumerate(taken) if each == topic), len(taken)]
        assert max(later - earlier for earlier, later in itertools.pairwise(places)) <= longest


@given(st.lists(st.tuples(st.sampled_from(["add", "drop", "take"]), st.integers(0, 4)), max_size=60), PRIORITIES)
def test_each_waits_once_and_is_taken_once(calls: list[tuple[str, int]], priorities: list[int]) -> None:
    order: Order[int] = Order(lambda topic: priorities[topic % len(priorities)])
    waiting: set[int] = set()
    for call, topic in calls:
        match call:
            case "add":
                order.add(topic)
                waiting.add(topic)
            case "drop":
                order.drop(topic)
                waiting.discard(topic)
            case _ if waiting:
                waiting.remove(order.take())  # KeyError: it was not there
        assert bool(order) == bool(waiting)


def served(api: Api, urgent: str, patient: str, count: int) -> list[str]:
    """Which topic each of the first frames is of, in a stream of both from their first records on."""
    with api.stream(api.watch({patient: {}, urgent: {}}, limit=1)) as stream:
        got: list[str] = []
        stream.until(lambda event: event.name == "record" and (got.append(event.data["topic"]) or len(got) == count))
    return got


def test_a_stream_serves_the_higher_priority_first(api: Api) -> None:
    urgent, patient = new_name(), new_name()
    for name, priority in ((urgent, 10), (patient, -10)):
        api.done("PUT", f"/v0/topics/{name}", {"priority": priority})
        api.append(name, *range(40))
    got = served(api, urgent, patient, 40)
    assert got[:3] == [urgent] * 3
    assert got.count(patient) == 40 // LONGEST_EVERY
