"""Members as processes that come, leave, are killed and are frozen, while records arrive. Afterwards their logs must show:

- no record is skipped: a member got each record, and its commit of it was accepted
- the records of a share come in order within a generation
- no record is shown to two live owners: before another member gets a record again, its first owner has died, was frozen, has
  left, has lost its stream, or has committed nothing for as long as its session
- a commit of an earlier owner is refused: no accepted commit is above the cursor with which the next owner starts
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.groups.team import SOCKET, STREAM, Line, Team, broken, shown_twice
from tests.instances import Instance, until
from tests.watch.wire import Api

pytestmark = pytest.mark.deep(44)


PARTITIONS = 16


@pytest.fixture(params=[[STREAM], [SOCKET], [SOCKET, STREAM]], ids=["streams", "sockets", "both"])
def team(instances: Callable[..., Instance], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Team]:
    instance = instances(WEB_WORKERS="2")
    Api(instance.port).done("PUT", "/v0/topics/work", {})
    team = Team(instance.port, "work", tmp_path, request.param)
    yield team
    team.end()


def produce(api: Api, stop: threading.Event) -> None:
    while not stop.is_set():
        api.append("work", *({"data": n, "tag": f"t{n % 100}"} for n in range(50)))
        stop.wait(0.05)


@pytest.mark.guarantee("R8")
def test_members_that_die_and_freeze_lose_no_record(team: Team) -> None:
    api, choose, stop = Api(team.port), random.Random(45), threading.Event()
    api.stream(f"/v0/topics/work/groups/team/stream?partitions={PARTITIONS}&member=first&session_ms=1000").close()
    producer = threading.Thread(target=produce, args=(api, stop))
    producer.start()
    try:
        for _ in range(4):
            team.add()
        for step in ("add", "freeze", "kill", "leave", "add", "add", "freeze", "kill", "add", "leave", "add"):
            time.sleep(0.4)
            name = choose.choice(sorted(team.running))
            if step == "add":
                team.add()
            else:
                getattr(team, step)(name)
    finally:
        stop.set()
        producer.join()
    until(lambda: team.state()["lag"] == 0, "the group to reach the head")
    head = api.done("GET", "/v0/topics/work")["head_seq"]
    lines = team.lines()
    assert list(broken(lines, team.state()["shares"], set(range(1, head + 1)))) == []
    assert shown_twice(lines, team.deaths) == []


def line(what: str, **data: object) -> Line:
    return {"what": what, "session": 1, "at": 0.0, **data}


def story() -> list[Line]:
    """A member got two records of share 0 and committed them, and the next owner got the third."""
    share, later = {"share": 0, "generation": 1}, {"share": 0, "generation": 2}
    return [
        line("assigned", shares=[share | {"seq": 0}]),
        line("shown", **share, seqs=[1, 2]),
        line("committed", shares=[share | {"seq": 2}]),
        line("assigned", shares=[later | {"seq": 2}], session=2),
        line("shown", **later, seqs=[3], session=2),
        line("committed", shares=[later | {"seq": 3}], session=2),
    ]


@pytest.mark.parametrize(
    ("place", "changed", "said"),
    [
        (0, {}, None),
        (1, {"seqs": [1]}, "1 records were skipped, first seq 2"),
        (1, {"seqs": [2, 1]}, "out of order or twice"),
        (4, {"generation": 1, "session": 2, "seqs": [3]}, "had two owners"),
        (3, {"shares": [{"share": 0, "generation": 2, "seq": 1}]}, "a later owner began at 1"),
        (5, {"what": "refused"}, "1 records were skipped, first seq 3"),
    ],
)
def test_the_rules_find_what_is_broken(place: int, changed: Line, said: str | None) -> None:
    lines = story()
    lines[place] |= changed
    found = list(broken(lines, [{"share": 0, "generation": 2, "seq": 3}], {1, 2, 3}))
    assert found == [] if said is None else any(said in each for each in found), found


@pytest.mark.parametrize(
    ("sent", "death", "is_found"),
    [(9.5, None, True), (8.9, None, False), (9.5, 9.9, False)],
    ids=["alive", "silent for its session", "frozen"],
)
def test_a_record_that_two_live_members_got_is_found(sent: float, death: float | None, is_found: bool) -> None:
    share = {"share": 0, "generation": 1}
    lines = [
        line("joined", member="one"),
        line("commits", shares=[share | {"seq": 1}], at=sent),
        line("committed", shares=[share | {"seq": 1}], at=sent),
        line("joined", member="two", session=2),
        line("shown", **share | {"generation": 2}, seqs=[2], session=2, at=10.0),
        line("shown", **share, seqs=[2], at=10.1),
    ]
    deaths: dict[str, list[float]] = {"one": [death] if death else [], "two": []}
    assert [seq for seq, _, _ in shown_twice(lines, deaths)] == ([2] if is_found else [])
