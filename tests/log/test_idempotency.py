"""A key for each record: relays that overlap, restart and race store each row once (docs/wire.md).

Each relay sends rows of one outbox on a connection of its own. A restart makes a relay send rows again, in other batches. The
model is a dict: the first seq under each key.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.clients import HttpClient
from tests.examples import examples
from tests.instances import Instance
from tests.log.test_concurrency import together
from tests.log.writers import read_all

ROWS = 30
BATCHES = st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(1, 12)), min_size=1, max_size=5)
CONFIGS = [{}, {"durability": "fsync"}, {"durability": "memory"}, {"discard": "reject", "cap_records": 10_000}]
numbers = itertools.count()


def rows(first: int, length: int, changed: int | None = None) -> dict[str, Any]:
    """The body of a relay that found these rows. Every seventh row has no key. The row `changed` differs from the outbox."""
    found = range(first, min(first + length, ROWS))
    records = [{"data": {"row": row, "changed": True} if row == changed else row} for row in found]
    return {"records": records, "idempotency_keys": [None if row % 7 == 0 else f"row-{row}" for row in found]}


@pytest.mark.guarantee("W6")
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_relays_that_overlap_store_each_row_once(server: Instance, config: dict[str, Any]) -> None:
    @settings(max_examples=examples(3))
    @given(st.lists(BATCHES, min_size=2, max_size=5))
    def check(relays: list[list[tuple[int, int]]]) -> None:
        topic = f"relays.{next(numbers)}"
        HttpClient(server.port).put(f"/v0/topics/{topic}", config)

        def relay(batches: list[tuple[int, int]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
            live = HttpClient(server.port)
            sent = []
            for batch in batches:
                body = rows(*batch)
                answer = live.post(f"/v0/topics/{topic}", body)
                assert answer.status == 200, answer.body
                sent.append((body, answer.json))
            return sent

        seqs: dict[str, set[int]] = {}
        stored: Counter[Any] = Counter()  # how often each row was written
        for body, answer in [each for done in together(*[lambda r=r: relay(r) for r in relays]) for each in done]:  # type: ignore[misc]
            places = range(len(body["records"]))
            assert answer["count"] == len(answer["seqs"]) == len(places)
            assert (answer["first_seq"], answer["last_seq"]) == (answer["seqs"][0], answer["seqs"][-1])
            assert answer["deduped"] == (len(answer["deduplicated"]) == len(places))
            written = [seq for place, seq in enumerate(answer["seqs"]) if place not in answer["deduplicated"]]
            assert written == list(range(written[0], written[0] + len(written))) if written else True
            for place, key in enumerate(body["idempotency_keys"]):
                if key is not None:
                    seqs.setdefault(key, set()).add(answer["seqs"][place])
                if place not in answer["deduplicated"]:
                    stored[body["records"][place]["data"]] += 1
        assert all(len(each) == 1 for each in seqs.values())
        assert all(times == 1 for row, times in stored.items() if row % 7)
        read = read_all(server.port, topic)
        assert Counter(record["data"] for record in read) == stored
        assert [record["$seq"] for record in read] == list(range(1, len(read) + 1))
        by_seq = {record["$seq"]: record["data"] for record in read}
        assert {key: by_seq[seq] for key, (seq,) in seqs.items()} == {key: int(key[4:]) for key in seqs}

    check()


@pytest.mark.guarantee("W6")
def test_a_record_that_differs_refuses_the_whole_append_of_its_relay(server: Instance) -> None:
    topic = f"relays.{next(numbers)}"
    live = HttpClient(server.port)
    live.post(f"/v0/topics/{topic}", rows(1, 5))
    bodies = [rows(1, 8, changed=changed) for changed in (None, 2, 4, None, 5)]
    answers = together(*[lambda body=body: live.post(f"/v0/topics/{topic}", body) for body in bodies])  # type: ignore[misc]
    assert [answer.status for answer in answers] == [200, 422, 422, 200, 422]
    for answer, row in ((answers[1], 2), (answers[2], 4), (answers[4], 5)):
        assert answer.code == "idempotency_mismatch"
        assert answer.detail == {"key": f"row-{row}", "first_seq": row, "last_seq": row, "index": row - 1}
    # Row 7 has no key, so both relays that succeeded have stored it.
    assert sorted(record["data"] for record in read_all(server.port, topic)) == [1, 2, 3, 4, 5, 6, 7, 7, 8]
